package election_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func TestAdoptsATermWhoseGrantGotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		b := s.client("a")
		n := 0
		b.faults = func(call string) fault {
			if call == "acquire" {
				if n++; n == 1 {
					return fault{after: errors.New("connection reset")}
				}
			}
			return fault{}
		}
		a := start(t, b, nil)
		await(t, time.Second, "a leads", a.leads)
		if got := a.State().Token; got != 1 {
			t.Errorf("token %d, want 1: the term that was granted", got)
		}
	})
}

func TestALateAnswerRevivesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		b := s.client("a")
		var slow atomic.Bool
		b.faults = func(call string) fault {
			if call == "renew" && slow.Load() {
				return fault{late: 15 * time.Second, deaf: true}
			}
			return fault{}
		}
		a := start(t, b, nil)
		await(t, time.Second, "a leads", a.leads)
		slow.Store(true)
		await(t, 15*time.Second, "a does not lead", func() bool { return !a.leads() })
		slow.Store(false)
		await(t, 30*time.Second, "a leads again", a.leads)
		if got := a.terms(); !cmp.Equal(got, []uint64{1, 2}) {
			t.Errorf("terms %v, want a new one after the deadline", got)
		}
	})
}

func TestARenewalThatExecutesAfterTheDeadlineRevivesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		b := s.client("a")
		var broken atomic.Bool
		b.faults = func(call string) fault {
			switch {
			case call == "renew" && broken.Load():
				return fault{ghost: 9 * time.Second} // in time for the store, too late for us
			case call == "release":
				return fault{before: errDown}
			}
			return fault{}
		}
		a := start(t, b, nil)
		await(t, time.Second, "a leads", a.leads)
		broken.Store(true)
		await(t, ttl, "a does not lead", func() bool { return !a.leads() })
		broken.Store(false)
		await(t, 3*lease, "a leads again", a.leads)
		if got := a.terms(); !cmp.Equal(got, []uint64{1, 2}) {
			t.Errorf("terms %v, want a new one after the deadline", got)
		}
	})
}

func TestATwinWithOurIdentityEndsTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), nil)
		await(t, time.Second, "a leads", a.leads)
		s.set(func() { s.token, s.expires = 9, time.Now().Add(lease) })
		await(t, ttl/3+10*time.Millisecond, "the term ends", func() bool { return a.State().Token != 1 })
		if got := a.State(); got.Leading() {
			t.Errorf("leads on by somebody else's term: %+v", got)
		}
	})
}

func TestALateGrantIsGivenBackUnpublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		b := s.client("a")
		n := 0
		b.faults = func(call string) fault {
			if call == "acquire" {
				if n++; n == 1 {
					return fault{late: ttl + time.Second, deaf: true}
				}
			}
			return fault{}
		}
		a := start(t, b, nil)
		await(t, 20*time.Second, "a leads", a.leads)
		if got := a.terms(); !cmp.Equal(got, []uint64{2}) {
			t.Errorf("terms %v, want only the one after the late grant", got)
		}
	})
}

func TestADeafCallDelaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		b := s.client("a")
		var deaf atomic.Bool
		b.faults = func(string) fault {
			if deaf.Load() {
				return fault{delay: time.Minute, deaf: true}
			}
			return fault{}
		}
		a := start(t, b, nil)
		await(t, time.Second, "a leads", a.leads)
		deaf.Store(true)
		until := time.Now().Add(a.State().Remaining())
		await(t, ttl+time.Second, "the sinks know", func() bool { return a.last().Status != election.Leader })
		if late := time.Since(until); late > time.Millisecond {
			t.Errorf("published %v after the deadline", late)
		}
		if err := a.Live(); err != nil {
			t.Errorf("not alive already: %v", err)
		}
		await(t, ttl, "not alive", func() bool { return a.Live() != nil })
		deaf.Store(false)
		await(t, 2*time.Minute, "a leads again", a.leads)
		if err := a.Live(); err != nil {
			t.Errorf("not alive: %v", err)
		}
	})
}

func TestASuspendedGuestDoesNotLead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		begin := time.Now()
		var suspended atomic.Int64
		p := start(t, s.client("a"), nil, func(e *election.Elector) {
			election.SetBoottime(e, func() time.Duration { return time.Since(begin) + time.Duration(suspended.Load()) })
		})
		await(t, time.Second, "it leads", p.leads)
		synctest.Wait()
		suspended.Store(int64(ttl)) // no goroutine has run since
		if p.leads() {
			t.Error("leads after a suspension")
		}
		await(t, ttl/4+10*time.Millisecond, "the sinks know", func() bool { return p.last().Status != election.Leader })
		await(t, lease, "it leads again", p.leads)
		if got := p.terms(); !cmp.Equal(got, []uint64{1, 2}) {
			t.Errorf("terms %v", got)
		}
	})
}

func TestAStepOfTheStoresClockIsNotBelieved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), nil)
		await(t, time.Second, "a leads", a.leads)
		b := start(t, s.client("b"), nil)
		pass(t, time.Second, a, b)
		s.set(func() {
			s.skew = time.Hour
			for _, notify := range s.subs {
				notify()
			}
		})
		await(t, 2*lease, "one leads by a new term", func() bool {
			return (a.leads() || b.leads()) && a.State().Token+b.State().Token > 2
		}, a, b)
		_ = a.stop()
		_ = b.stop()
	})
}
