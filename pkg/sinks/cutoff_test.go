package sinks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func TestWorkForATermIsCutOffWhenTheTermIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		g := start(t, nil, &fake{name: "start hook", journal: &j, apply: func(ctx context.Context, s election.State) error {
			if s.Leading() {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		s := leader(t, 7)
		g.Publish(s)
		j.expect(t, "start hook leads 7")
		time.Sleep(time.Second)
		g.Publish(s) // a renewal ends nothing
		j.expect(t)
		g.Publish(after(s, election.SteppingDown))
		j.expect(t, "start hook follows")
		g.Each(func(_ string, inSync bool, failures uint64) {
			if !inSync || failures != 0 {
				t.Errorf("in sync: %v, failures: %d; being overtaken is none", inSync, failures)
			}
		})
	})
}

func TestWorkAfterATermIsCutOffBeforeTheNextLeaderActs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 16)
		g := start(t, nil, &fake{name: "stop hook", journal: &journal{}, apply: func(ctx context.Context, s election.State) error {
			if s.Leading() {
				return nil
			}
			<-ctx.Done()
			select {
			case ended <- time.Now():
			default:
			}
			return ctx.Err()
		}})
		s := leader(t, 7)
		g.Publish(s)
		synctest.Wait()
		g.Publish(after(s, election.SteppingDown))
		synctest.Wait()
		// The lease goes on being renewed meanwhile, which gives more time.
		time.Sleep(2 * time.Second)
		renewed := leader(t, 7)
		if !renewed.Cutoff().After(s.Cutoff()) {
			t.Fatal("the test needs a later cut-off")
		}
		g.Publish(after(renewed, election.SteppingDown))
		if at := <-ended; !at.Equal(renewed.Cutoff()) {
			t.Errorf("cut off at %v, want %v", at, renewed.Cutoff())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := g.Settle(ctx); err == nil || !strings.Contains(err.Error(), "sink stop hook: cut off") {
			t.Errorf("Settle: %v", err)
		}
	})
}

func TestANewTermDoesNotProlongWorkForTheOldOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 1)
		g := start(t, nil, &fake{name: "stop hook", journal: &journal{}, apply: func(ctx context.Context, s election.State) error {
			if s.Leading() {
				return nil
			}
			<-ctx.Done()
			select {
			case ended <- time.Now():
			default:
			}
			return ctx.Err()
		}})
		first := leader(t, 7)
		g.Publish(first)
		synctest.Wait()
		g.Publish(after(first, election.Standby))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		g.Publish(leader(t, 9))
		if at := <-ended; !at.Equal(first.Cutoff()) {
			t.Errorf("cut off at %v, want %v", at, first.Cutoff())
		}
	})
}

func TestADeafSinkHoldsUpTheOthersUntilTheCutoffOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		resume := make(chan struct{})
		defer close(resume)
		var tries times
		refused := errors.New("refused")
		g := start(t, nil,
			&fake{name: "files", journal: &j, apply: func(_ context.Context, s election.State) error {
				if !s.Leading() {
					<-resume
				}
				return nil
			}},
			&fake{name: "label", journal: &j, apply: func(_ context.Context, s election.State) error {
				if s.Leading() {
					return nil
				}
				tries.add()
				return refused
			}})
		s := leader(t, 7)
		g.Publish(s)
		j.expect(t, "files leads 7", "label leads 7")
		g.Publish(after(s, election.SteppingDown))
		time.Sleep(time.Until(s.Cutoff()) - 1)
		j.expect(t, "files follows")
		time.Sleep(1)
		j.expect(t, "label follows")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(tries.all()); n < 2 || n > 20 {
			t.Errorf("a failing sink was called %d times in 10 s after the cut-off", n)
		}
	})
}
