package mysql

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// race watches several contenders of one mutex.
type race struct {
	leaders atomic.Int32
	most    atomic.Int32 // how many led at the same time
	won     chan *runner // who leads, each time
	calls   sync.Map     // call -> *atomic.Int64, of all of them
	runners []*runner
}

func newRace() *race { return &race{won: make(chan *runner, 1000)} }

// enter and leave bracket a term.
func (r *race) enter() {
	n := r.leaders.Add(1)
	for m := r.most.Load(); n > m && !r.most.CompareAndSwap(m, n); m = r.most.Load() {
	}
}

func (r *race) leave() { r.leaders.Add(-1) }

func (r *race) count(call string) *atomic.Int64 {
	n, _ := r.calls.LoadOrStore(call, new(atomic.Int64))
	return n.(*atomic.Int64)
}

// next returns who leads next.
func (r *race) next(t testing.TB) *runner {
	t.Helper()
	select {
	case w := <-r.won:
		return w
	case <-time.After(patience):
		t.Fatal("nobody leads")
		return nil
	}
}

// runner is one elector on a backend of its own.
type runner struct {
	*election.Elector
	race     *race
	identity string
	leading  bool
	stop     func() // asks it to end, and waits until it has
}

// run starts a contender that contends until the test is over.
func (r *race) run(t testing.TB, location string, c election.Contender) *runner {
	t.Helper()
	b := open(t, location, c, nil)
	w := &runner{race: r, identity: c.Identity}
	e, err := election.New(b, c, w, &election.Options{
		Trace: election.Trace{Call: func(call string, _ time.Duration, err error) {
			if err != nil {
				call += " failed"
			}
			r.count(call).Add(1)
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Elector = e
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Run(ctx); err != nil && !errors.Is(err, election.ErrNotReleased) {
			t.Errorf("%s: %v", c.Identity, err)
		}
	}()
	w.stop = func() { cancel(); <-done; _ = b.Close() }
	t.Cleanup(w.stop)
	r.runners = append(r.runners, w)
	return w
}

// Publish implements election.Publisher.
func (w *runner) Publish(s election.State) {
	leads := s.Status == election.Leader
	switch {
	case leads && !w.leading:
		w.race.enter()
		w.race.won <- w
	case !leads && w.leading:
		w.race.leave()
	}
	w.leading = leads
}

// Settle implements election.Publisher.
func (w *runner) Settle(context.Context) error { return nil }
