package backendtest

import (
	"slices"
	"testing"
	"time"
)

// expiry is about when a lease that nobody renews ends: never early, and for good.
func (s *suite) expiry() []test {
	return slices.Concat(
		[]test{
			{"NotBeforeTheGrantEnds", s.notBeforeTheGrantEnds},
			{"NotBeforeTheRenewalEnds", s.notBeforeTheRenewalEnds},
			{"NotBeforeTheAdoptionEnds", s.notBeforeTheAdoptionEnds},
			{"HoldersLeaseCounts", s.holdersLeaseCounts},
			{"OwnExpiredLeaseIsANewTerm", func(t *testing.T) { s.ownExpiredLease(t, false) }},
			{"ExpiredTermIsOver", s.expiredTermIsOver},
			{"TakenTermIsOver", s.takenTermIsOver},
		},
		when(s.Now != nil && !s.Sessions,
			test{"OwnExpiredLeaseAfterRestart", func(t *testing.T) { s.ownExpiredLease(t, true) }},
		),
	)
}

func (s *suite) notBeforeTheGrantEnds(t *testing.T) {
	mutex := newMutex()
	a, b := s.open(t, hasty(mutex, "web-0_a"), nil), s.open(t, hasty(mutex, "web-1_b"), nil)
	before := s.now(t)
	won := a.wins(t)
	// Neither looking nor asking in vain prolongs a lease, not even if its holder does.
	next := b.takesOver(t, won.promise(),
		func() { a.observe(t) },
		func() { b.renew(t, won.Token) },
		func() { a.renew(t, won.Token+1) },
	)
	if next.Token <= won.Token {
		t.Errorf("token %d follows token %d", next.Token, won.Token)
	}
	if passed := s.now(t).Sub(before); s.Now != nil && passed < won.Remaining {
		t.Errorf("a lease of %v ended after %v by the store's own clock", won.Remaining, passed)
	}
}

// now returns the time by the store's clock, or the zero time if it has none.
func (s *suite) now(t *testing.T) time.Time {
	t.Helper()
	if s.Now == nil {
		return time.Time{}
	}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatalf("read the store's clock: %v", err)
	}
	return now
}

func (s *suite) notBeforeTheRenewalEnds(t *testing.T) {
	mutex := newMutex()
	a, b := s.open(t, steady(mutex, "web-0_a"), nil), s.open(t, hasty(mutex, "web-1_b"), nil)
	token := a.keepsFor(t, a.Lease()+a.TTL/2)
	b.sees(t, a, token)
	b.takesOver(t, a.renews(t, token).promise())
}

// keepsFor acquires the mutex and renews it, from time to time, for a while.
func (c *contender) keepsFor(t *testing.T, d time.Duration) (token uint64) {
	t.Helper()
	token = c.wins(t).Token
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(c.TTL / 10) {
		c.renews(t, token)
	}
	return token
}

func (s *suite) notBeforeTheAdoptionEnds(t *testing.T) {
	mutex := newMutex()
	a, b := s.open(t, hasty(mutex, "web-0_a"), nil), s.open(t, hasty(mutex, "web-1_b"), nil)
	again := a.wins(t)
	eventually(t, "an adoption, which a slow machine may be too late for", func() bool {
		won := again
		eventually(t, "half of the lease to pass", func() bool { return time.Since(won.start) > a.Lease()/2 })
		again = a.wins(t)
		return again.Token == won.Token
	})
	b.takesOver(t, again.promise())
}

// holdersLeaseCounts shows that a contender whose own lease is short waits for the holder's long one.
func (s *suite) holdersLeaseCounts(t *testing.T) {
	mutex := newMutex()
	a, b := s.open(t, steady(mutex, "web-0_a"), nil), s.open(t, hasty(mutex, "web-1_b"), nil)
	b.takesOver(t, a.wins(t).promise())
}

// ownExpiredLease shows that a lease which ran out is over for its last holder too, although nobody else
// took the mutex: what was protected by the old token may be in other hands by then.
func (s *suite) ownExpiredLease(t *testing.T, restart bool) {
	mutex := newMutex()
	a, b := s.open(t, hasty(mutex, "web-0_a"), nil), s.open(t, hasty(mutex, "web-1_b"), nil)
	won := a.wins(t)
	b.seesExpiry(t, won.promise())
	if restart {
		a = s.open(t, a.Contender, nil)
	}
	a.seesExpiry(t, won.promise())
	if next := a.wins(t); next.Token <= won.Token {
		t.Errorf("acquiring after the lease ran out got token %d; want one above %d", next.Token, won.Token)
	}
}

func (s *suite) expiredTermIsOver(t *testing.T) {
	mutex := newMutex()
	a, b := s.open(t, hasty(mutex, "web-0_a"), nil), s.open(t, hasty(mutex, "web-1_b"), nil)
	won := a.wins(t)
	b.seesExpiry(t, won.promise())
	a.seesExpiry(t, won.promise())
	a.wantFree(t, "renew", a.renew(t, won.Token))
	b.wantFree(t, "observe", b.observe(t))
	a.release(t, won.Token)
	if next := b.wins(t); next.Token <= won.Token {
		t.Errorf("token %d follows token %d", next.Token, won.Token)
	}
}

func (s *suite) takenTermIsOver(t *testing.T) {
	mutex := newMutex()
	a, b := s.open(t, hasty(mutex, "web-0_a"), nil), s.open(t, patient(mutex, "web-1_b"), nil)
	won := a.wins(t)
	next := b.takesOver(t, won.promise())
	a.wantHeld(t, "renew", a.renew(t, won.Token), b, next.Token)
	a.wantHeld(t, "renew", a.renew(t, next.Token), b, next.Token)
	for _, token := range []uint64{won.Token, next.Token, 0} {
		a.release(t, token)
		b.sees(t, b, next.Token)
	}
	a.wantHeld(t, "acquire", a.acquire(t), b, next.Token)
}
