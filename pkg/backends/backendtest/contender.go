package backendtest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

const (
	// patience is far beyond what anything takes that a test waits for, so that a slow machine fails no test.
	patience = 30 * time.Second
	// pause is how long a polling test leaves the store alone between two looks.
	pause = 10 * time.Millisecond
	// brief is the time-out of calls that are meant to fail.
	brief = 250 * time.Millisecond
)

// newMutex returns a name that every store takes and no other test uses.
func newMutex() string { return "backendtest-" + strings.ToLower(rand.Text()) }

// limit bounds what a test waits for. Well before the time-out of go test, which would end all tests and
// show none of their logs, the test fails by itself.
func limit(t *testing.T) time.Duration {
	if deadline, ok := t.Deadline(); ok {
		return min(patience, time.Until(deadline)/2)
	}
	return patience
}

// patient returns a contender whose lease does not run out during a test.
func patient(mutex, identity string) election.Contender {
	return election.Contender{Mutex: mutex, Identity: identity, TTL: 10 * time.Minute, Transition: time.Minute}
}

// hasty returns a contender with the shortest lease there is.
func hasty(mutex, identity string) election.Contender {
	return election.Contender{Mutex: mutex, Identity: identity, TTL: time.Second, Transition: 500 * time.Millisecond}
}

// steady returns a contender with a lease that outlasts a hasty one's by far, and runs out nevertheless.
func steady(mutex, identity string) election.Contender {
	return election.Contender{Mutex: mutex, Identity: identity, TTL: 4 * time.Second, Transition: 500 * time.Millisecond}
}

// calm returns a contender for an Elector, whose calls have a quarter of TTL: enough on a busy machine.
func calm(mutex, identity string) election.Contender {
	return election.Contender{Mutex: mutex, Identity: identity, TTL: 3 * time.Second, Transition: time.Second}
}

// contender makes the raw calls of one Backend. Errors of calls end the test.
type contender struct {
	election.Contender
	suite   *suite
	backend election.Backend
}

// answer is a Lease with the times of the call that learned it.
type answer struct {
	election.Lease
	start, end time.Time
}

// promise is the time until when nobody else can take the mutex.
func (a answer) promise() time.Time { return a.start.Add(a.Remaining) }

func (s *suite) contend(t *testing.T, mutex, identity string) *contender {
	t.Helper()
	return s.open(t, patient(mutex, identity), nil)
}

// open opens a contender, behind the proxy unless that is nil.
func (s *suite) open(t *testing.T, c election.Contender, via *faultproxy.Proxy) *contender {
	t.Helper()
	addr := s.Addr
	if via != nil {
		addr = via.Addr()
	}
	b, err := s.Open(addr, c)
	if err != nil {
		t.Fatalf("open %q for %q: %v", c.Mutex, c.Identity, err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return &contender{c, s, b}
}

// proxy starts a proxy in front of the server.
func (s *suite) proxy(t *testing.T) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.New(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// try makes one call and leaves its error to the caller. A call that does not end with its context ends
// the test.
func (c *contender) try(t *testing.T, timeout time.Duration, v verb, token uint64) (answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	a := answer{start: time.Now()}
	ended := make(chan error, 1)
	go func() {
		var err error
		a.Lease, err = c.call(ctx, v, token)
		a.end = time.Now()
		ended <- err
	}()
	select {
	case err := <-ended:
		return a, err
	case <-time.After(timeout + limit(t)):
		t.Fatalf("%s's %s goes on although its time-out of %v has long passed", c.Identity, v, timeout)
		return answer{}, nil
	}
}

func (c *contender) call(ctx context.Context, v verb, token uint64) (election.Lease, error) {
	switch v {
	case acquire:
		return c.backend.Acquire(ctx)
	case renew:
		return c.backend.Renew(ctx, token)
	case release:
		return election.Lease{}, c.backend.Release(ctx, token)
	default:
		return c.backend.Observe(ctx)
	}
}

func (c *contender) must(t *testing.T, v verb, token uint64) answer {
	t.Helper()
	a, err := c.try(t, limit(t), v, token)
	if err != nil {
		t.Fatalf("%s's %s: %v", c.Identity, v, err)
	}
	return a
}

func (c *contender) acquire(t *testing.T) answer { t.Helper(); return c.must(t, acquire, 0) }
func (c *contender) observe(t *testing.T) answer { t.Helper(); return c.must(t, observe, 0) }

func (c *contender) renew(t *testing.T, token uint64) answer {
	t.Helper()
	return c.must(t, renew, token)
}

func (c *contender) release(t *testing.T, token uint64) {
	t.Helper()
	c.must(t, release, token)
}

// loses makes a call that is to fail, since nothing gets through to the server or back.
func (c *contender) loses(t *testing.T, v verb, token uint64) {
	t.Helper()
	if a, err := c.try(t, brief, v, token); err == nil {
		t.Fatalf("%s's %s answered %+v although the network was down", c.Identity, v, a.Lease)
	}
}

// wins acquires the mutex, which is to be granted at once.
func (c *contender) wins(t *testing.T) answer {
	t.Helper()
	a := c.acquire(t)
	c.wantGrant(t, "acquire", a, a.Token)
	return a
}

// renews renews a term, which is to be granted.
func (c *contender) renews(t *testing.T, token uint64) answer {
	t.Helper()
	a := c.renew(t, token)
	c.wantGrant(t, "renew", a, token)
	return a
}

// wantGrant checks that a call granted the term with that token for a full lease.
func (c *contender) wantGrant(t *testing.T, call string, a answer, token uint64) {
	t.Helper()
	least, most := c.suite.grant(c.Contender)
	switch {
	case a.Holder != c.Identity || a.Token == 0 || a.Token != token:
		t.Fatalf("%s's %s learned %+v; want a grant with token %d", c.Identity, call, a.Lease, token)
	case a.Remaining < least || a.Remaining > most:
		t.Errorf("%s's %s was granted for %v; want a full lease of %v to %v, whatever the store showed",
			c.Identity, call, a.Remaining, least, most)
	case a.Lapsed:
		t.Errorf("%s's %s was granted and says that the lease has lapsed", c.Identity, call)
	}
}

// wantHeld checks what a call learned that was granted nothing: holder has the term with that token.
func (c *contender) wantHeld(t *testing.T, call string, a answer, holder *contender, token uint64) {
	t.Helper()
	if a.Holder != holder.Identity || a.Token != token || a.Lapsed {
		t.Fatalf("%s's %s learned %+v; want holder %s with token %d", c.Identity, call, a.Lease, holder.Identity, token)
	}
	// What remains counts from the start of the call, and the holder may have renewed at its end.
	if _, most := c.suite.grant(holder.Contender); a.Remaining < 0 || a.Remaining > most+a.end.Sub(a.start) {
		t.Errorf("%s's %s of %v says that %v of the lease remain; a full one is %v",
			c.Identity, call, a.end.Sub(a.start), a.Remaining, most)
	}
}

// wantFree checks what a call learned about a mutex that nobody holds.
func (c *contender) wantFree(t *testing.T, call string, a answer) {
	t.Helper()
	if a.Holder != "" || a.Token != 0 || a.Remaining != 0 {
		t.Fatalf("%s's %s learned %+v; want a mutex that nobody holds", c.Identity, call, a.Lease)
	}
}

// sees checks that holder has the term with that token, by looking.
func (c *contender) sees(t *testing.T, holder *contender, token uint64) answer {
	t.Helper()
	a := c.observe(t)
	c.wantHeld(t, "observe", a, holder, token)
	return a
}

// seesFree checks that the mutex was given up.
func (c *contender) seesFree(t *testing.T) {
	t.Helper()
	a := c.observe(t)
	c.wantFree(t, "observe", a)
	if a.Lapsed {
		t.Errorf("%s's observe says that the lease has lapsed, but it was released or never was", c.Identity)
	}
}

// takesOver tries to take the mutex until that is granted, which must not be before the promise made to
// its holder. Between tries it does what else is given, which must not prolong the holder's lease.
func (c *contender) takesOver(t *testing.T, promise time.Time, meanwhile ...func()) answer {
	t.Helper()
	for deadline := time.Now().Add(limit(t)); time.Now().Before(deadline); time.Sleep(pause) {
		seen := c.observe(t)
		c.wantNotBefore(t, "observe", seen, promise)
		a := c.acquire(t)
		c.wantNotBefore(t, "acquire", a, promise)
		if a.Holder == c.Identity {
			c.wantGrant(t, "acquire", a, a.Token)
			return a
		}
		for _, f := range meanwhile {
			f()
		}
	}
	t.Fatalf("%s does not get the mutex, although nobody renews the lease", c.Identity)
	return answer{}
}

// wantNotBefore checks that an answer does not give away what is promised to another contender.
func (c *contender) wantNotBefore(t *testing.T, call string, a answer, promise time.Time) {
	t.Helper()
	if early := promise.Sub(a.end); early > 0 && (a.Holder == "" || a.Holder == c.Identity) {
		t.Fatalf("%s's %s learned %+v, %v before the lease that was promised to another contender ends",
			c.Identity, call, a.Lease, early)
	}
}

// seesExpiry waits until nobody holds the mutex, which must not be before the promise.
func (c *contender) seesExpiry(t *testing.T, promise time.Time) {
	t.Helper()
	eventually(t, "the lease to run out", func() bool {
		a := c.observe(t)
		c.wantNotBefore(t, "observe", a, promise)
		if a.Holder == "" && c.suite.Lapses && !a.Lapsed {
			t.Errorf("%s's observe does not say that the lease has lapsed", c.Identity)
		}
		return a.Holder == ""
	})
}

// eventually polls for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit(t)); !condition(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// within returns f's error, or fails the test if f does not return.
func within(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	return receive(t, what, done)
}

func receive[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(limit(t)):
		t.Fatalf("gave up waiting for %s", what)
	}
	return v
}
