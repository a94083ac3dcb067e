package backendtest

import (
	"context"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
)

// faults are what the network does to calls. An error is always allowed, a wrong answer never.
func (s *suite) faults() []test {
	return when(s.networked(),
		test{"OpenConnectsToNothing", s.openConnectsToNothing},
		test{"Blackhole", s.blackhole},
		test{"Refused", s.refused},
		test{"Slow", s.slow},
		test{"CutAnswers", s.cutAnswers},
		test{"CloseEndsACall", s.closeEndsACall},
	)
}

// calls are all of a contender's, about a term with the token.
var calls = []verb{observe, acquire, renew, release}

func (s *suite) openConnectsToNothing(t *testing.T) {
	proxy := s.proxy(t)
	proxy.Refuse()
	c := s.open(t, patient(newMutex(), "web-0_a"), proxy)
	if n := proxy.Accepted(); n != 0 {
		t.Errorf("open made %d connections", n)
	}
	if _, err := c.try(t, brief, observe, 0); err == nil {
		t.Error("observe got an answer through a network that is down")
	}
	proxy.Pass()
	c.seesFree(t)
}

// holderBehind returns a contender behind a proxy that holds the mutex.
func (s *suite) holderBehind(t *testing.T, proxy *faultproxy.Proxy) (c *contender, token uint64) {
	t.Helper()
	c = s.open(t, patient(newMutex(), "web-0_a"), proxy)
	return c, c.wins(t).Token
}

// blackhole shows that each call ends with its context, and that the next one does not wait for the
// connection that is dead.
func (s *suite) blackhole(t *testing.T) {
	for _, v := range calls {
		t.Run(string(v), func(t *testing.T) {
			proxy := s.proxy(t)
			c, token := s.holderBehind(t, proxy)
			proxy.Blackhole()
			for range 2 { // over the connection that was there, and over one that cannot be made
				c.loses(t, v, token)
			}
			before := proxy.Accepted()
			proxy.Pass()
			if v != release {
				c.wantGrant(t, "acquire", c.acquire(t), token)
			} else if a := c.wins(t); a.Token < token {
				t.Errorf("token %d follows token %d", a.Token, token)
			}
			if s.Sessions {
				return
			}
			if proxy.Accepted() == before {
				t.Errorf("the call after a %s of unknown effect used an old connection", v)
			}
		})
	}
}

func (s *suite) refused(t *testing.T) {
	for _, v := range calls {
		t.Run(string(v), func(t *testing.T) {
			proxy := s.proxy(t)
			c, token := s.holderBehind(t, proxy)
			proxy.Refuse()
			c.loses(t, v, token)
			c.loses(t, v, token)
			proxy.Pass()
			if a := c.wins(t); a.Token < token {
				t.Errorf("token %d follows token %d", a.Token, token)
			}
		})
	}
}

// slow shows that a promise counts from the start of the call: on a slow network it is partly over when
// the answer comes.
func (s *suite) slow(t *testing.T) {
	proxy := s.proxy(t)
	mutex := newMutex()
	a, b := s.open(t, steady(mutex, "web-0_a"), proxy), s.open(t, steady(mutex, "web-1_b"), nil)
	token := a.wins(t).Token
	proxy.Delay(50 * time.Millisecond)
	a.sees(t, a, token)
	won := a.renews(t, token)
	// The answer on the way to a is half a second old, and must not be taken for news.
	b.takesOver(t, won.promise(), func() {
		seen := a.observe(t)
		_, most := s.grant(a.Contender)
		if s.Now != nil && seen.Holder == a.Identity && seen.promise().After(won.end.Add(most)) {
			t.Errorf("observe over a slow network says that %v remain, which is longer than was granted", seen.Remaining)
		}
	})
}

// cutAnswers lets only a part of each answer through: at worst it is unknown, but never taken for "free".
func (s *suite) cutAnswers(t *testing.T) {
	proxy := s.proxy(t)
	mutex := newMutex()
	a, b := s.contend(t, mutex, "web-0_a"), s.open(t, patient(mutex, "web-1_b"), proxy)
	token := a.wins(t).Token
	b.sees(t, a, token)
	failed := 0
	for n := 0; n < 4096; n += 1 + n/4 {
		proxy.Cut(n)
		for _, v := range []verb{observe, acquire, renew} {
			seen, err := b.try(t, limit(t), v, token)
			if err != nil {
				failed++
			} else {
				b.wantHeld(t, string(v), seen, a, token)
			}
		}
	}
	if failed == 0 {
		t.Error("no call failed although its answers were cut short")
	}
	proxy.Pass()
	b.sees(t, a, token)
	a.renews(t, token)
}

// closeEndsACall shows that a process can always stop: Close ends the call that is in flight.
func (s *suite) closeEndsACall(t *testing.T) {
	for _, v := range calls {
		t.Run(string(v), func(t *testing.T) {
			proxy := s.proxy(t)
			c, token := s.holderBehind(t, proxy)
			proxy.Blackhole()
			ended := make(chan error, 1)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience)
			t.Cleanup(cancel)
			call := func() error { _, err := c.call(ctx, v, token); return err }
			go func() { ended <- call() }()
			time.Sleep(brief) // lets the call get to where it waits for the network
			if err := within(t, "close", c.backend.Close); err != nil {
				t.Logf("close beside a call in flight: %v", err)
			}
			if err := receive(t, "the call to end with its Backend", ended); err == nil {
				t.Errorf("%s got an answer through a network that is down", v)
			}
			if err := within(t, "a call after close", call); err == nil {
				t.Errorf("%s after close returned no error", v)
			}
			if err := c.backend.Close(); err != nil {
				t.Errorf("second close: %v", err)
			}
		})
	}
}
