package election_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func TestReleaseHandsOverAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), nil)
		await(t, time.Second, "a leads", a.leads)
		b := start(t, s.client("b"), nil)
		pass(t, time.Second, a, b)
		begin := time.Now()
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
		await(t, time.Second, "b leads", b.leads, a, b)
		if d := time.Since(begin); d > 50*time.Millisecond {
			t.Errorf("hand-over took %v", d)
		}
		if got := a.last(); got.Status != election.SteppingDown || got.Holder != "" {
			t.Errorf("last state %+v", got)
		}
		if b.State().Token != 2 {
			t.Errorf("token %d, want 2", b.State().Token)
		}
	})
}

func TestStopAfterAGrantWhoseAnswerGotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		b := s.client("a")
		b.faults = func(call string) fault {
			if call == "acquire" {
				return fault{after: errDown}
			}
			return fault{}
		}
		a := start(t, b, nil)
		await(t, time.Second, "the answer is lost", func() bool { return a.State().Reason != "" })
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
		if holder, token := s.owner(); holder != "" || token != 1 {
			t.Errorf("the store says %q %d, want a released term 1", holder, token)
		}
	})
}

func TestAWinAfterStopIsNeverPublished(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"answered":        {late: time.Second},
		"answer lost":     {late: time.Second, after: errors.New("connection reset")},
		"before the call": {delay: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				b := s.client("a")
				acquiring := make(chan struct{}, 1)
				b.faults = func(call string) fault {
					if call == "acquire" {
						acquiring <- struct{}{}
						return f
					}
					return fault{}
				}
				a := start(t, b, nil)
				<-acquiring
				if err := a.stop(); err != nil {
					t.Fatal(err)
				}
				if got := a.terms(); got != nil {
					t.Errorf("published terms %v", got)
				}
				if holder, token := s.owner(); holder != "" || token != 1 {
					t.Errorf("the store says %q %d, want a released term 1", holder, token)
				}
			})
		})
	}
}

func TestStepDownDuringAnAcquire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		b := s.client("a")
		acquiring := make(chan struct{}, 2)
		b.faults = func(call string) fault {
			if call == "acquire" {
				acquiring <- struct{}{}
				return fault{late: time.Second}
			}
			return fault{}
		}
		a := start(t, b, nil)
		<-acquiring
		begin := time.Now()
		if err := a.StepDown(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if holder, _ := s.owner(); holder != "" {
			t.Errorf("held by %q after StepDown", holder)
		}
		await(t, 2*time.Minute, "a leads", a.leads)
		if d := time.Since(begin); d < time.Minute {
			t.Errorf("led again after %v, in the cool-down", d)
		}
		if got := a.terms(); !cmp.Equal(got, []uint64{2}) {
			t.Errorf("terms %v", got)
		}
	})
}

func TestSinksSettleBeforeTheRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		const lag = 4 * time.Second
		a := start(t, s.client("a"), nil)
		a.slow(lag)
		await(t, 10*time.Second, "a leads", a.leads)
		b := start(t, s.client("b"), nil)
		await(t, 10*time.Second, "a's sink leads", a.following, a, b)
		down := make(chan error, 1)
		go func() { down <- a.StepDown(context.Background(), 0) }()
		await(t, time.Second, "a does not lead", func() bool { return !a.leads() }, a, b)
		if got := a.State(); got.Status != election.SteppingDown || got.Holder != "a" {
			t.Errorf("state %+v", got)
		}
		begin := time.Now()
		await(t, 10*time.Second, "b leads", func() bool {
			if b.leads() && a.following() {
				t.Fatal("b leads before a's sink has settled")
			}
			return b.leads()
		}, a, b)
		if d := time.Since(begin); d < lag-time.Second {
			t.Errorf("b led after %v, before the sink had settled", d)
		}
		if err := <-down; err != nil {
			t.Errorf("step down: %v", err)
		}
		if got := a.State(); got.Reason != "cooldown" {
			t.Errorf("reason %q, want cooldown", got.Reason)
		}
	})
}

func TestRenewsWhileSinksSettle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), &election.Options{StopTimeout: time.Minute})
		await(t, time.Second, "a leads", a.leads)
		b := start(t, s.client("b"), nil)
		a.slow(50 * time.Second) // several leases
		begin := time.Now()
		a.cancel()
		await(t, time.Minute, "a has stopped", func() bool {
			if d := time.Until(a.State().Cutoff()); d < 0 {
				t.Fatalf("the cut-off passed %v ago, while the lease is ours", -d)
			}
			return len(a.ran) > 0
		}, a, b)
		if err := <-a.ran; err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d < 50*time.Second {
			t.Errorf("stopped after %v", d)
		}
		await(t, time.Second, "b leads", b.leads, a, b)
		if got := b.State().Token; got != 2 {
			t.Errorf("token %d: the lease was not kept", got)
		}
	})
}

func TestStopTimeoutBoundsTheSinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), &election.Options{StopTimeout: 3 * time.Second})
		await(t, time.Second, "a leads", a.leads)
		a.slow(time.Hour)
		begin := time.Now()
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d < 3*time.Second || d > 4*time.Second {
			t.Errorf("released after %v, want 3 s", d)
		}
		if holder, _ := s.owner(); holder != "" {
			t.Errorf("still held by %q", holder)
		}
	})
}

func TestSinksAreCutOffBeforeOthersMayLead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), nil)
		await(t, time.Second, "a leads", a.leads)
		a.slow(time.Hour)
		s.set(func() { s.down = true })
		await(t, ttl, "a does not lead", func() bool { return !a.leads() })
		ended := time.Now()
		if d := time.Until(a.State().Cutoff()); d > transition/2 || d < transition/2-10*time.Millisecond {
			t.Errorf("cut-off in %v, want half the transition", d)
		}
		s.set(func() { s.down = false; s.reads, s.writes = map[string]int{}, map[string]int{} })
		await(t, lease, "a contends again", func() bool {
			writes, reads := s.counts()
			return reads["a"]+writes["a"] > 0
		})
		if d := time.Since(ended); d < transition/2-10*time.Millisecond || d > transition {
			t.Errorf("next call %v after the deadline, want half the transition", d)
		}
	})
}

func TestStopWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), nil)
		await(t, time.Second, "a leads", a.leads)
		s.set(func() { s.down = true })
		begin := time.Now()
		if err := a.stop(); !errors.Is(err, election.ErrNotReleased) {
			t.Errorf("got %v, want ErrNotReleased", err)
		}
		if d := time.Since(begin); d > 11*time.Second {
			t.Errorf("stopping took %v", d)
		}
	})
}

func TestStepDownBeforeRunAndAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		b := s.client("a")
		e, err := election.New(b, b.c, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.StepDown(context.Background(), 0); err == nil {
			t.Error("no error before Run")
		}
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan error)
		go func() { ran <- e.Run(ctx) }()
		await(t, time.Second, "it leads", func() bool { return e.State().Leading() })
		cancel()
		if err := <-ran; err != nil {
			t.Fatal(err)
		}
		if err := e.StepDown(context.Background(), 0); err != nil {
			t.Errorf("after Run: %v", err)
		}
		if err := e.Run(context.Background()); err == nil {
			t.Error("ran twice")
		}
	})
}

func TestLeavesTheQueueForACoolDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		b := s.client("a")
		b.queue = true
		watching := func() (n int) {
			s.set(func() { n = len(s.subs) })
			return n
		}
		a := start(t, b, nil)
		await(t, time.Second, "a leads and watches", func() bool { return a.leads() && watching() == 1 })
		if err := a.StepDown(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for begin := time.Now(); time.Since(begin) < 59*time.Second; {
			if watching() != 0 {
				t.Fatalf("in the queue %v after the step-down", time.Since(begin))
			}
			pass(t, time.Second, a)
		}
		await(t, 2*time.Second, "a leads and watches again", func() bool { return a.leads() && watching() == 1 })
	})
}
