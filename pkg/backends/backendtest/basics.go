package backendtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// basics are what each call answers when nothing special happens.
func (s *suite) basics() []test {
	return slices.Concat(
		[]test{
			{"FreeMutex", s.freeMutex},
			{"HeldMutex", s.heldMutex},
			{"ReleasedMutex", s.releasedMutex},
			{"GrantsAreFullLeases", s.grantsAreFullLeases},
			{"MutexesAreIndependent", s.mutexesAreIndependent},
			{"OnlyOneOfManyWins", s.onlyOneOfManyWins},
			{"EndedContext", s.endedContext},
		},
		when(s.OpenWithoutHints != nil,
			test{"WithoutHints", s.withoutHints},
		),
	)
}

func (s *suite) freeMutex(t *testing.T) {
	mutex := newMutex()
	a, b := s.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b")
	a.seesFree(t)
	a.wantFree(t, "renew", a.renew(t, 1))
	a.release(t, 1)
	a.release(t, 0)
	b.seesFree(t)
	won := a.wins(t)
	b.sees(t, a, won.Token)
}

func (s *suite) heldMutex(t *testing.T) {
	mutex := newMutex()
	a, b := s.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b")
	won := a.wins(t)
	a.sees(t, a, won.Token)
	b.sees(t, a, won.Token)
	b.wantHeld(t, "acquire", b.acquire(t), a, won.Token)
	b.wantHeld(t, "renew", b.renew(t, won.Token), a, won.Token)
	b.wantHeld(t, "renew", b.renew(t, won.Token+1), a, won.Token)
	a.renews(t, won.Token)
	again := a.wins(t) // adopts
	if again.Token != won.Token {
		t.Errorf("token %d of a term became %d when its holder acquired again", won.Token, again.Token)
	}
	seen := b.sees(t, a, won.Token)
	_, most := s.grant(a.Contender)
	if s.Now != nil && seen.promise().After(again.end.Add(most)) {
		t.Errorf("observe says that %v of the lease remain, which is longer than it was granted for", seen.Remaining)
	}
}

func (s *suite) releasedMutex(t *testing.T) {
	mutex := newMutex()
	a, b := s.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b")
	won := a.wins(t)
	a.release(t, won.Token)
	a.seesFree(t)
	b.seesFree(t)
	a.wantFree(t, "renew", a.renew(t, won.Token))
	a.release(t, won.Token)
	next := b.wins(t)
	if next.Token <= won.Token {
		t.Errorf("token %d follows token %d", next.Token, won.Token)
	}
	a.sees(t, b, next.Token)
	b.release(t, 0) // whatever term it has
	a.seesFree(t)
}

// grantsAreFullLeases shows that a grant never repeats what the store happened to show: a lease that has
// partly run out is granted in full again.
func (s *suite) grantsAreFullLeases(t *testing.T) {
	a := s.contend(t, newMutex(), "web-0_a")
	won := a.wins(t)
	for _, call := range []verb{renew, acquire, renew} {
		time.Sleep(100 * time.Millisecond) // lets a part of the lease run out
		a.wantGrant(t, string(call), a.must(t, call, won.Token), won.Token)
	}
}

func (s *suite) mutexesAreIndependent(t *testing.T) {
	one, two := newMutex(), newMutex()
	a, b := s.contend(t, one, "web-0_a"), s.contend(t, two, "web-1_b")
	wonA, wonB := a.wins(t), b.wins(t)
	a.sees(t, a, wonA.Token)
	b.sees(t, b, wonB.Token)
	a.release(t, 0)
	b.sees(t, b, wonB.Token)
	b.renews(t, wonB.Token)
}

func (s *suite) onlyOneOfManyWins(t *testing.T) {
	mutex := newMutex()
	all := make([]*contender, 8)
	for i := range all {
		all[i] = s.contend(t, mutex, fmt.Sprintf("web-%d", i))
	}
	won := make([]bool, len(all))
	var calls sync.WaitGroup
	for i, c := range all {
		calls.Go(func() {
			a, err := c.try(t, limit(t), acquire, 0)
			if err != nil {
				t.Errorf("%s's acquire: %v", c.Identity, err)
			}
			won[i] = a.Holder == c.Identity
		})
	}
	calls.Wait()
	winners := 0
	for _, w := range won {
		if w {
			winners++
		}
	}
	if winners != 1 {
		t.Errorf("%d of %d contenders were granted the free mutex; want 1", winners, len(all))
	}
}

func (s *suite) withoutHints(t *testing.T) {
	plain := &suite{s.Harness}
	plain.Open, plain.OpenWithoutHints = s.OpenWithoutHints, nil
	together(t, []test{
		{"HeldMutex", plain.heldMutex},
		{"ReleasedMutex", plain.releasedMutex},
		{"HandOver", plain.handOver},
		{"Expiry", plain.notBeforeTheGrantEnds},
	})
	// Both kinds of contenders exclude each other and hand over to each other.
	mutex := newMutex()
	a, b := plain.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b")
	won := a.wins(t)
	b.sees(t, a, won.Token)
	a.release(t, won.Token)
	next := b.wins(t)
	a.sees(t, b, next.Token)
}

// endedContext shows that nobody waits for a store on behalf of a caller who has gone.
func (s *suite) endedContext(t *testing.T) {
	c := s.contend(t, newMutex(), "web-0_a")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for call, f := range map[string]func() error{
		"acquire": func() error { _, err := c.backend.Acquire(ended); return err },
		"renew":   func() error { _, err := c.backend.Renew(ended, 1); return err },
		"release": func() error { return c.backend.Release(ended, 1) },
		"observe": func() error { _, err := c.backend.Observe(ended); return err },
	} {
		if err := within(t, call, f); err == nil {
			t.Errorf("%s with an ended context returned no error", call)
		}
	}
	eventually(t, "a grant after calls with an ended context", func() bool {
		a, err := c.try(t, limit(t), acquire, 0)
		return err == nil && a.Holder == c.Identity
	})
}
