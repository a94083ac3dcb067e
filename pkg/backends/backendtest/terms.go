package backendtest

import (
	"slices"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
)

// terms are calls about a term that is over, or somebody else's: what decides is the token, and never the
// identity alone.
func (s *suite) terms() []test {
	return slices.Concat(
		[]test{
			{"StaleRenew", s.staleRenew},
			{"StaleRelease", s.staleRelease},
			{"ForeignRelease", s.foreignRelease},
			{"ReleaseWithoutToken", s.releaseWithoutToken},
			{"SameIdentityAfterRestart", s.sameIdentityAfterRestart},
			{"CloseKeepsTheTerm", s.closeKeepsTheTerm},
		},
		when(s.networked(),
			test{"LostAcquire", s.lostAcquire},
			test{"LostRenewal", s.lostRenewal},
			test{"LostRelease", s.lostRelease},
		),
	)
}

// secondTerm returns a contender that holds its second term, and the token of its first.
func (s *suite) secondTerm(t *testing.T, mutex string) (c *contender, first, second uint64) {
	t.Helper()
	c = s.contend(t, mutex, "web-0_a")
	first = c.wins(t).Token
	c.release(t, first)
	second = c.wins(t).Token
	if second <= first {
		t.Fatalf("token %d follows token %d", second, first)
	}
	return c, first, second
}

func (s *suite) staleRenew(t *testing.T) {
	mutex := newMutex()
	b := s.contend(t, mutex, "web-1_b")
	a, first, second := s.secondTerm(t, mutex)
	time.Sleep(100 * time.Millisecond) // lets a part of the lease run out
	before := b.sees(t, a, second)
	for _, token := range []uint64{first, second + 1, 1<<63 - 1} {
		a.wantHeld(t, "stale renew", a.renew(t, token), a, second)
	}
	if after := b.sees(t, a, second); s.Now != nil && after.promise().After(before.end.Add(before.Remaining)) {
		t.Errorf("a renewal with another token prolonged the term: %v remained, then %v", before.Remaining, after.Remaining)
	}
	a.renews(t, second)
}

func (s *suite) staleRelease(t *testing.T) {
	mutex := newMutex()
	b := s.contend(t, mutex, "web-1_b")
	a, first, second := s.secondTerm(t, mutex)
	for _, token := range []uint64{first, second + 1, 1<<63 - 1} {
		a.release(t, token)
		b.sees(t, a, second)
	}
	a.renews(t, second)
}

func (s *suite) foreignRelease(t *testing.T) {
	mutex := newMutex()
	a, b := s.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b")
	before := b.wins(t).Token
	b.release(t, before)
	won := a.wins(t)
	for _, token := range []uint64{0, won.Token, before} {
		b.release(t, token)
		b.sees(t, a, won.Token)
	}
	a.renews(t, won.Token)
}

func (s *suite) releaseWithoutToken(t *testing.T) {
	mutex := newMutex()
	b := s.contend(t, mutex, "web-1_b")
	a, _, second := s.secondTerm(t, mutex)
	a.release(t, 0)
	b.seesFree(t)
	if next := b.wins(t); next.Token <= second {
		t.Errorf("token %d follows token %d", next.Token, second)
	}
}

// cutShort makes a's call, time after time, with more and more bytes of the store's answers getting through,
// until one call succeeds. After each call that failed it calls check, which reports whether the store
// had executed the call.
func (s *suite) cutShort(t *testing.T, proxy *faultproxy.Proxy, call func() error, check func() bool) {
	t.Helper()
	executed := 0
	for n := 0; ; n += 1 + n/32 {
		proxy.Cut(n)
		err := call()
		proxy.Pass()
		if err == nil {
			break
		}
		if check() {
			executed++
		}
		if n > 1<<16 {
			t.Fatalf("no call succeeded with %d bytes of its answer: %v", n, err)
		}
	}
	if executed == 0 && !s.Sessions {
		t.Error("no call was executed without its answer getting through: the test shows nothing")
	}
}

func (s *suite) lostAcquire(t *testing.T) {
	proxy := s.proxy(t)
	mutex := newMutex()
	a, b := s.open(t, patient(mutex, "web-0_a"), proxy), s.contend(t, mutex, "web-1_b")
	last := b.wins(t).Token
	b.release(t, last)
	s.cutShort(t, proxy,
		func() error { _, err := a.try(t, limit(t), acquire, 0); return err },
		func() bool {
			seen := b.observe(t)
			won := a.wins(t)
			taken := seen.Holder == a.Identity
			if taken && !s.Sessions && won.Token != seen.Token {
				t.Errorf("acquiring again after a lost answer got token %d, and did not adopt the term with token %d", won.Token, seen.Token)
			}
			if won.Token <= last {
				t.Errorf("token %d follows token %d", won.Token, last)
			}
			b.sees(t, a, won.Token)
			a.renews(t, won.Token)
			a.release(t, won.Token)
			last = won.Token
			return taken
		})
}

func (s *suite) lostRenewal(t *testing.T) {
	proxy := s.proxy(t)
	mutex := newMutex()
	a, b := s.open(t, patient(mutex, "web-0_a"), proxy), s.contend(t, mutex, "web-1_b")
	token := a.wins(t).Token
	s.cutShort(t, proxy,
		func() error { _, err := a.try(t, limit(t), renew, token); return err },
		func() bool {
			b.sees(t, a, token)
			a.renews(t, token)
			return true // or not: it makes no difference
		})
	a.release(t, token)
	b.seesFree(t)
}

func (s *suite) lostRelease(t *testing.T) {
	proxy := s.proxy(t)
	mutex := newMutex()
	a, b := s.open(t, patient(mutex, "web-0_a"), proxy), s.contend(t, mutex, "web-1_b")
	token := a.wins(t).Token
	s.cutShort(t, proxy,
		func() error { _, err := a.try(t, limit(t), release, token); return err },
		func() bool {
			seen := b.observe(t)
			a.release(t, token)
			b.seesFree(t)
			next := b.wins(t)
			a.release(t, token)
			a.sees(t, b, next.Token)
			b.release(t, next.Token)
			token = a.wins(t).Token
			return seen.Holder == ""
		})
	b.seesFree(t)
}

// sameIdentityAfterRestart continues a term in a new Backend, which is a restarted process to the store.
func (s *suite) sameIdentityAfterRestart(t *testing.T) {
	s.termsOutliveBackends(t)
	restarted := func(t *testing.T) (*contender, answer, *contender) {
		mutex := newMutex()
		a, b := s.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b")
		won := a.wins(t)
		if err := a.backend.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		return s.contend(t, mutex, "web-0_a"), won, b
	}
	together(t, []test{
		{"Acquire", func(t *testing.T) {
			a, won, b := restarted(t)
			if again := a.wins(t); again.Token != won.Token {
				t.Errorf("the term with token %d was not adopted: token %d", won.Token, again.Token)
			}
			b.sees(t, a, won.Token)
		}},
		{"Renew", func(t *testing.T) {
			a, won, b := restarted(t)
			a.renews(t, won.Token)
			b.sees(t, a, won.Token)
		}},
		{"Release", func(t *testing.T) {
			a, won, b := restarted(t)
			a.release(t, won.Token+1)
			b.sees(t, a, won.Token)
			a.release(t, won.Token)
			b.seesFree(t)
		}},
		{"ReleaseWithoutToken", func(t *testing.T) {
			a, _, b := restarted(t)
			a.release(t, 0)
			b.seesFree(t)
		}},
	})
}

func (s *suite) closeKeepsTheTerm(t *testing.T) {
	s.termsOutliveBackends(t)
	mutex := newMutex()
	a, b := s.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b")
	won := a.wins(t)
	for range 2 {
		if err := a.backend.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	b.sees(t, a, won.Token)
	b.wantHeld(t, "acquire", b.acquire(t), a, won.Token)
}

func (s *suite) termsOutliveBackends(t *testing.T) {
	t.Helper()
	if s.Sessions {
		t.Skip("a term ends with the session of its Backend")
	}
}
