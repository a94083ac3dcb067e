package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// watcher runs a backend's Watch, as long as the test.
type watcher struct {
	hints chan struct{}
	ended chan error
	stop  context.CancelFunc
}

func watch(t testing.TB, b election.Backend) *watcher {
	t.Helper()
	w := &watcher{hints: make(chan struct{}, 1000), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	t.Cleanup(cancel)
	go func() { w.ended <- b.(election.Watcher).Watch(ctx, func() { w.hints <- struct{}{} }) }()
	w.hint(t)
	return w
}

func (w *watcher) hint(t testing.TB) {
	t.Helper()
	select {
	case <-w.hints:
	case err := <-w.ended:
		t.Fatalf("watch ended: %v", err)
	case <-time.After(patience):
		t.Fatal("no hint")
	}
}

func (w *watcher) end(t testing.TB) error {
	t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(patience):
		t.Fatal("watch goes on")
		return nil
	}
}

func (s *store) lockNames() lockNames { return newLockNames(s.database, DefaultTable, "orders") }

// owner returns the connection that has a named lock, 0 if none has.
func (s *store) owner(t testing.TB, lock string) (id int64) {
	t.Helper()
	if err := s.root.QueryRowContext(t.Context(), "select coalesce(is_used_lock(?), 0)", lock).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// waiting returns how many connections wait for a lock, or use the database for anything else.
func (s *store) connections(t testing.TB, state string) (n int) {
	t.Helper()
	err := s.root.QueryRowContext(t.Context(), "select count(*) from information_schema.processlist"+
		" where db = ? and id <> connection_id() and state like ?", s.database, state).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestReleaseWakesTheHeadAndTheQueueMovesUp(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		locks := s.lockNames()
		a, b, c := s.open(t, "a"), s.open(t, "b"), s.open(t, "c")
		watch(t, a)
		lease := wins(t, a, "a")
		eventually(t, "the leader to have its lock", func() bool { return s.owner(t, locks.leader) != 0 })
		renew(t, a, lease.Token)
		if s.owner(t, locks.queue) != 0 {
			t.Error("the leader stays in the queue")
		}
		wb := watch(t, b)
		eventually(t, "b to be the head", func() bool { return s.owner(t, locks.queue) != 0 })
		wc := watch(t, c)
		release(t, a, lease.Token)
		wb.hint(t)
		if got := observe(t, b); got.Holder != "" {
			t.Errorf("after the hint: %+v", got)
		}
		lease = wins(t, b, "b")
		renew(t, b, lease.Token)
		if len(wc.hints) > 0 {
			t.Error("c was woken too")
		}
		release(t, b, lease.Token)
		wc.hint(t) // a is behind c in the queue
		wins(t, c, "c")
	})
}

func TestLeaderThatDidNotQueueGetsItsLockFromTheHead(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		locks := s.lockNames()
		a, b := s.open(t, "a"), s.open(t, "b")
		lease := wins(t, a, "a")
		wb := watch(t, b)
		hints := 0
		look := func() { // what a standby does
			for len(wb.hints) > 0 {
				<-wb.hints
				hints++
				if got := observe(t, b); got.Holder != "a" {
					t.Fatalf("observed %+v", got)
				}
				lease = renew(t, a, lease.Token)
			}
		}
		eventually(t, "the head to look at a row without a lock twice", func() bool { look(); return hints >= 2 })
		before := s.owner(t, locks.queue)
		watch(t, a)
		eventually(t, "the leader to have its lock", func() bool {
			look()
			id := s.owner(t, locks.leader)
			return id != 0 && id != before
		})
		look()
		if s.owner(t, locks.queue) != before {
			t.Error("the head has left the queue")
		}
		release(t, a, lease.Token)
		wb.hint(t)
		wins(t, b, "b")
	})
}

func TestLeaderKeepsOneConnectionAndAStandbyToo(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		a, b := s.open(t, "a"), s.open(t, "b")
		lease := wins(t, a, "a")
		watch(t, a)
		eventually(t, "the leader to use one connection", func() bool {
			renew(t, a, lease.Token)
			return s.connections(t, "%") == 1
		})
		watch(t, b)
		for range 5 {
			observe(t, b)
			renew(t, a, lease.Token)
		}
		eventually(t, "two connections", func() bool { return s.connections(t, "%") == 2 })
	})
}

func TestWatchThatIsCancelledLeavesTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		locks := s.lockNames()
		a := s.open(t, "a")
		lease := wins(t, a, "a")
		wa := watch(t, a)
		eventually(t, "the leader to have its lock", func() bool { return s.owner(t, locks.leader) != 0 })
		var waiters []*watcher
		for _, name := range []string{"b", "c", "d"} {
			waiters = append(waiters, watch(t, s.open(t, name)))
		}
		eventually(t, "all to wait", func() bool { return s.connections(t, "User lock") == 3 })
		for _, w := range waiters {
			w.stop()
			if err := w.end(t); !errors.Is(err, context.Canceled) {
				t.Errorf("watch: %v", err)
			}
		}
		eventually(t, "the server to drop them", func() bool {
			renew(t, a, lease.Token)
			return s.connections(t, "%") == 1
		})
		if s.owner(t, locks.queue) != 0 {
			t.Error("somebody is still in the queue")
		}

		// A leader's lock outlives its Watch, and ends with the release.
		wa.stop()
		_ = wa.end(t)
		renew(t, a, lease.Token)
		if s.owner(t, locks.leader) == 0 {
			t.Error("the leader has lost its lock")
		}
		wa = watch(t, a)
		renew(t, a, lease.Token)
		if n := s.connections(t, "%"); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
		wa.stop()
		_ = wa.end(t)
		release(t, a, lease.Token)
		eventually(t, "the lock to be free", func() bool { return s.owner(t, locks.leader) == 0 })
		eventually(t, "no connection", func() bool { return s.connections(t, "%") == 0 })
	})
}

func TestWatchSaysWhenItsConnectionIsGone(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		locks := s.lockNames()
		a, b := s.open(t, "a"), s.open(t, "b")
		wa := watch(t, a)
		lease := wins(t, a, "a")
		eventually(t, "the leader to have its lock", func() bool { return s.owner(t, locks.leader) != 0 })
		renew(t, a, lease.Token)
		wb := watch(t, b)
		eventually(t, "b to be the head", func() bool { return s.owner(t, locks.queue) != 0 })
		s.exec(t, fmt.Sprintf("kill %d", s.owner(t, locks.queue)))
		if err := wb.end(t); err == nil {
			t.Error("no error")
		}
		s.exec(t, fmt.Sprintf("kill %d", s.owner(t, locks.leader)))
		if _, err := a.Renew(t.Context(), lease.Token); err == nil {
			t.Error("no error")
		}
		if err := wa.end(t); err == nil {
			t.Error("no error")
		}
		if got := renew(t, a, lease.Token); got.Holder != "a" {
			t.Errorf("renewed %+v", got)
		}
		watch(t, a)
		eventually(t, "the leader to have its lock again", func() bool { return s.owner(t, locks.leader) != 0 })
	})
}

func TestStandbyThatTakesALapsedRowLeavesTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		locks := s.lockNames()
		a, b, c := s.open(t, "a"), s.open(t, "b"), s.open(t, "c")
		watch(t, a)
		wins(t, a, "a")
		eventually(t, "a to have the leader's lock", func() bool { return s.owner(t, locks.leader) != 0 })
		_ = renew(t, a, observe(t, a).Token)
		watch(t, b)
		eventually(t, "b to be the head", func() bool { return s.owner(t, locks.queue) != 0 })
		watch(t, c)
		eventually(t, "c to wait", func() bool { return s.connections(t, "User lock") == 2 })
		s.exec(t, "update simba_mutex set transition_at = 1")
		lease := wins(t, c, "c") // while a has the leader's lock, and b the queue's
		if got := renew(t, a, lease.Token-1); got.Holder != "c" {
			t.Fatalf("a renewed %+v", got)
		}
		// a lets go of the leader's lock, for which b and c now wait both.
		eventually(t, "c to have the leader's lock", func() bool {
			renew(t, c, lease.Token)
			observe(t, b)
			c.(*watched).mu.Lock()
			defer c.(*watched).mu.Unlock()
			return c.(*watched).lent != nil && c.(*watched).lent.leader
		})
	})
}

func TestHandOverWakesOneOfMany(t *testing.T) {
	for _, many := range []int{10, 200} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			skipCrowd(t, many)
			onOwn(t, manyConnections, func(t *testing.T, s *store) {
				rounds := min(many, 50)
				r := newRace()
				c := contender("first")
				c.TTL, c.Transition = 20*time.Second, 2*time.Second // nothing runs out during the test
				r.run(t, s.location(), c)
				leader := r.next(t)
				for i := range many {
					c.Identity = fmt.Sprintf("c%d", i)
					r.run(t, s.location(), c)
				}
				r.quiet(t, s, many)
				acquires, observes := r.count("acquire").Load(), r.count("observe").Load()
				begin := time.Now()
				for range rounds {
					leader.stop()
					leader = r.next(t)
				}
				t.Logf("%d hand-overs among %d in %v", rounds, many, time.Since(begin))
				// One each; a reader that the hint did not wake may see the row free now and then.
				if n := r.count("acquire").Load() - acquires; n < int64(rounds) || n > int64(rounds+rounds/2) {
					t.Errorf("%d acquires for %d hand-overs", n, rounds)
				}
				if n := r.count("observe").Load() - observes; n > 2*int64(rounds) {
					t.Errorf("%d reads for %d hand-overs", n, rounds)
				}
				if r.most.Load() != 1 {
					t.Errorf("%d led at once", r.most.Load())
				}
			})
		})
	}
}

// quiet waits until all standbys wait, know the holder, and no longer read because of having started.
func (r *race) quiet(t testing.TB, s *store, standbys int) {
	t.Helper()
	var reads int64
	since := time.Now()
	eventually(t, "the start to be over", func() bool {
		n := r.count("observe").Load()
		unsure := slices.ContainsFunc(r.runners, func(w *runner) bool {
			state := w.State()
			return state.Holder == "" || state.Reason != ""
		})
		if n != reads || unsure || s.connections(t, "User lock") != standbys {
			reads, since = n, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	})
}

// skipCrowd leaves out what takes two processors for half a minute.
func skipCrowd(t *testing.T, contenders int) {
	t.Helper()
	if testing.Short() && contenders > 10 {
		t.Skip("takes long")
	}
}
