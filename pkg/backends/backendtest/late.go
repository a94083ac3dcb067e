package backendtest

import (
	"slices"
	"testing"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
)

// lateCalls are calls that the store executes out of order, or long after their contender gave them up.
func (s *suite) lateCalls() []test {
	return slices.Concat(
		[]test{
			{"ShorterRenewal", func(t *testing.T) { s.shorterCall(t, renew) }},
			{"ShorterAdoption", func(t *testing.T) { s.shorterCall(t, acquire) }},
		},
		when(s.networked(),
			test{"RenewalAfterNewerOne", s.renewalAfterNewerOne},
			test{"RenewalAfterExpiry", s.renewalAfterExpiry},
			test{"RenewalAfterRelease", s.renewalAfterRelease},
			test{"RenewalAfterTakeover", s.renewalAfterTakeover},
			test{"ReleaseAfterNextTerm", s.releaseAfterNextTerm},
			test{"AcquireAfterTakeover", s.acquireAfterTakeover},
		),
	)
}

// shorterCall shows that an expiry never moves back. A stale copy of the holder with a shorter lease stands
// for a renewal that was given up and executes after a newer one.
func (s *suite) shorterCall(t *testing.T, v verb) {
	s.termsOutliveBackends(t)
	mutex := newMutex()
	a, b := s.open(t, steady(mutex, "web-0_a"), nil), s.open(t, hasty(mutex, "web-1_b"), nil)
	stale := s.open(t, hasty(mutex, "web-0_a"), nil)
	won := a.wins(t)
	stale.wantGrant(t, string(v), stale.must(t, v, won.Token), won.Token)
	b.takesOver(t, won.promise())
}

// withheld returns the holder of a mutex and a stale copy of it whose call is on its way to the store. The
// call reaches the store, and is executed there, when deliver is called.
func (s *suite) withheld(t *testing.T, mutex string, v verb) (a, stale *contender, won answer, deliver func()) {
	t.Helper()
	s.termsOutliveBackends(t)
	proxy := s.proxy(t)
	a, stale = s.open(t, steady(mutex, "web-0_a"), nil), s.open(t, hasty(mutex, "web-0_a"), proxy)
	stale.observe(t) // sets up what the store needs to have set up first
	won = a.wins(t)
	if v == acquire {
		a.release(t, won.Token)
	}
	proxy.Blackhole()
	stale.loses(t, v, won.Token)
	return a, stale, won, func() {
		t.Helper()
		proxy.Pass()
		settled(t, proxy, stale)
	}
}

// settled returns when nothing that the contender sent before is still on its way.
func settled(t *testing.T, proxy *faultproxy.Proxy, c *contender) {
	t.Helper()
	if err := c.backend.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	eventually(t, "all connections to be closed", func() bool { return proxy.Open() == 0 })
}

func (s *suite) renewalAfterNewerOne(t *testing.T) {
	mutex := newMutex()
	a, _, won, deliver := s.withheld(t, mutex, renew)
	b := s.open(t, hasty(mutex, "web-1_b"), nil)
	newer := a.renews(t, won.Token)
	deliver()
	b.sees(t, a, won.Token)
	b.takesOver(t, newer.promise())
}

func (s *suite) renewalAfterExpiry(t *testing.T) {
	mutex := newMutex()
	a, _, won, deliver := s.withheld(t, mutex, renew)
	b := s.open(t, hasty(mutex, "web-1_b"), nil)
	b.seesExpiry(t, won.promise())
	deliver()
	b.wantFree(t, "observe", b.observe(t))
	a.wantFree(t, "renew", a.renew(t, won.Token))
	if next := b.wins(t); next.Token <= won.Token {
		t.Errorf("token %d follows token %d", next.Token, won.Token)
	}
}

func (s *suite) renewalAfterRelease(t *testing.T) {
	mutex := newMutex()
	a, _, won, deliver := s.withheld(t, mutex, renew)
	a.release(t, won.Token)
	deliver()
	a.seesFree(t)
	again := a.wins(t)
	if again.Token <= won.Token {
		t.Errorf("token %d follows token %d", again.Token, won.Token)
	}
}

func (s *suite) renewalAfterTakeover(t *testing.T) {
	mutex := newMutex()
	a, _, won, deliver := s.withheld(t, mutex, renew)
	a.release(t, won.Token)
	b := s.contend(t, mutex, "web-1_b")
	next := b.wins(t)
	deliver()
	a.sees(t, b, next.Token)
	b.renews(t, next.Token)
}

func (s *suite) releaseAfterNextTerm(t *testing.T) {
	mutex := newMutex()
	a, _, won, deliver := s.withheld(t, mutex, release)
	a.release(t, won.Token)
	b := s.contend(t, mutex, "web-1_b")
	again := a.wins(t)
	deliver()
	b.sees(t, a, again.Token)
	a.renews(t, again.Token)
}

func (s *suite) acquireAfterTakeover(t *testing.T) {
	mutex := newMutex()
	a, _, _, deliver := s.withheld(t, mutex, acquire)
	b := s.contend(t, mutex, "web-1_b")
	next := b.wins(t)
	deliver()
	a.sees(t, b, next.Token)
	b.renews(t, next.Token)
}
