package backendtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// watch is about hints. They may come for no reason, late or merged, and an Elector survives the loss of any;
// but a backend that loses one while nothing is broken has a bug, so their absence fails a test.
func (s *suite) watch() []test {
	tests := []test{
		{"NotifiesOnceItStands", s.notifiesOnceItStands},
		{"HandOver", s.handOver},
		{"HandOverThroughAQueue", s.handOverThroughAQueue},
		{"HandOverAfterALongTerm", s.handOverAfterALongTerm},
		{"EndsWithItsContext", s.watchEndsWithItsContext},
		{"EndsWithItsBackend", s.watchEndsWithItsBackend},
	}
	tests = append(tests, when(s.networked(), test{"BreaksWithItsConnection", s.watchBreaksWithItsConnection})...)
	for i, test := range tests {
		tests[i].run = func(t *testing.T) {
			s.watches(t)
			test.run(t)
		}
	}
	return tests
}

func (s *suite) watches(t *testing.T) {
	t.Helper()
	if _, ok := s.contend(t, newMutex(), "web-0_a").backend.(election.Watcher); !ok {
		t.Skip("the backend has no hints")
	}
}

// subscription is a Watch that runs.
type subscription struct {
	hints chan struct{} // merged, as an Elector merges them
	ended chan error
	stop  context.CancelFunc
}

// listen starts to watch, and returns once the subscription stands. The Watch ends with the test.
func (c *contender) listen(t *testing.T) *subscription {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &subscription{make(chan struct{}, 1), make(chan error, 1), cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ended <- c.backend.(election.Watcher).Watch(ctx, func() {
			select {
			case s.hints <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		receive(t, c.Identity+"'s watch to return", done)
	})
	s.hint(t, "that the subscription stands")
	return s
}

// hint waits for a notification.
func (s *subscription) hint(t *testing.T, what string) {
	t.Helper()
	select {
	case <-s.hints:
	case err := <-s.ended:
		t.Fatalf("watch returned while the test waited for the notification %s: %v", what, err)
	case <-time.After(limit(t)):
		t.Fatalf("no notification %s", what)
	}
}

// winsByHint looks at the mutex when a hint says so, and only then, until it gets it.
func (s *subscription) winsByHint(t *testing.T, c *contender) answer {
	t.Helper()
	for deadline := time.Now().Add(limit(t)); time.Now().Before(deadline); {
		s.hint(t, "after the mutex was released")
		if a := c.acquire(t); a.Holder == c.Identity {
			return a
		}
	}
	t.Fatalf("%s was notified again and again, but never when the mutex was free", c.Identity)
	return answer{}
}

func (s *suite) notifiesOnceItStands(t *testing.T) {
	mutex := newMutex()
	a, b := s.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b")
	a.listen(t) // a free mutex
	won := a.wins(t)
	b.listen(t) // a held one
	b.sees(t, a, won.Token)
	a.renews(t, won.Token)
}

// handOver shows that a standby learns of a release, whether or not the holder watches too. A backend
// without hints has to make do with looking.
func (s *suite) handOver(t *testing.T) {
	for name, holderWatches := range map[string]bool{"WatchedByItsHolder": true, "NotWatchedByItsHolder": false} {
		t.Run(name, func(t *testing.T) {
			mutex := newMutex()
			a, b := s.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b")
			if _, ok := a.backend.(election.Watcher); !ok {
				token := a.wins(t).Token
				a.release(t, token)
				b.wins(t)
				return
			}
			if holderWatches {
				a.listen(t)
			}
			won := a.wins(t)
			hints := b.listen(t)
			b.wantHeld(t, "acquire", b.acquire(t), a, won.Token)
			a.renews(t, won.Token)
			a.release(t, won.Token)
			next := hints.winsByHint(t, b)
			a.sees(t, b, next.Token)
		})
	}
}

// handOverThroughAQueue passes the mutex on until everybody had it. Whoever gives it up goes on watching.
func (s *suite) handOverThroughAQueue(t *testing.T) {
	mutex := newMutex()
	holder := s.contend(t, mutex, "web-0")
	type win struct {
		c *contender
		answer
	}
	wins := make(chan win)
	over := make(chan struct{})
	defer close(over)
	token := holder.wins(t).Token
	const standbys = 4
	for i := range standbys {
		c := s.contend(t, mutex, "web-"+string(rune('1'+i)))
		hints := c.listen(t)
		go func() {
			for {
				select {
				case <-hints.hints:
				case <-over:
					return
				}
				a, err := c.try(t, limit(t), acquire, 0)
				if err == nil && a.Holder == c.Identity {
					wins <- win{c, a}
					return
				}
			}
		}()
	}
	for range standbys {
		holder.release(t, token)
		next := receive(t, "the next in the queue to win by a hint", wins)
		if next.Token <= token {
			t.Errorf("token %d follows token %d", next.Token, token)
		}
		holder, token = next.c, next.Token
		holder.renews(t, token)
	}
}

// handOverAfterALongTerm shows that a subscription lasts, although nothing happens for longer than a
// lease.
func (s *suite) handOverAfterALongTerm(t *testing.T) {
	mutex := newMutex()
	a, b := s.open(t, steady(mutex, "web-0_a"), nil), s.open(t, hasty(mutex, "web-1_b"), nil)
	a.listen(t)
	token := a.wins(t).Token
	hints := b.listen(t)
	for end := time.Now().Add(4 * b.Lease()); time.Now().Before(end); time.Sleep(a.TTL / 10) {
		a.renews(t, token)
	}
	a.release(t, token)
	hints.winsByHint(t, b)
}

func (s *suite) watchEndsWithItsContext(t *testing.T) {
	c := s.contend(t, newMutex(), "web-0_a")
	for range 3 { // one after the other, on the same Backend
		hints := c.listen(t)
		hints.stop()
		if err := receive(t, "watch to return", hints.ended); !errors.Is(err, context.Canceled) {
			t.Errorf("watch returned %v when its context was cancelled", err)
		}
	}
	c.wins(t) // and the other calls go on
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := within(t, "watch", func() error { return c.backend.(election.Watcher).Watch(ended, func() {}) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("watch with an ended context returned %v", err)
	}
}

func (s *suite) watchEndsWithItsBackend(t *testing.T) {
	c := s.contend(t, newMutex(), "web-0_a")
	hints := c.listen(t)
	if err := within(t, "close", c.backend.Close); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := receive(t, "watch to end with its Backend", hints.ended); err == nil {
		t.Error("watch returned no error although its context has not ended")
	}
}

// watchBreaksWithItsConnection shows that a subscription which is dead says so, instead of leaving its
// contender to believe in it.
func (s *suite) watchBreaksWithItsConnection(t *testing.T) {
	t.Run("Reset", func(t *testing.T) {
		proxy := s.proxy(t)
		mutex := newMutex()
		a, b := s.contend(t, mutex, "web-0_a"), s.open(t, patient(mutex, "web-1_b"), proxy)
		won := a.wins(t)
		hints := b.listen(t)
		proxy.Refuse()
		if err := receive(t, "watch to return", hints.ended); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("watch returned %v when its connection was reset", err)
		}
		proxy.Pass()
		hints = b.listen(t) // stands again
		a.release(t, won.Token)
		hints.winsByHint(t, b)
	})
	t.Run("CancelledInAPartition", func(t *testing.T) {
		proxy := s.proxy(t)
		c := s.open(t, patient(newMutex(), "web-0_a"), proxy)
		hints := c.listen(t)
		proxy.Blackhole()
		hints.stop()
		if err := receive(t, "watch to return", hints.ended); !errors.Is(err, context.Canceled) {
			t.Errorf("watch returned %v when its context was cancelled", err)
		}
	})
}
