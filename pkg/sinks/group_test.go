package sinks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
	"github.com/simba-sidecar/simba-sidecar/pkg/sinks"
)

// fake is a sink that does what the test says and remembers what it was told.
type fake struct {
	name     string
	renewals bool
	apply    func(ctx context.Context, s election.State) error
	journal  *journal
}

func (f *fake) Name() string   { return f.name }
func (f *fake) Renewals() bool { return f.renewals }

func (f *fake) Apply(ctx context.Context, s election.State) error {
	f.journal.add(f.name, s)
	if f.apply == nil {
		return nil
	}
	return f.apply(ctx, s)
}

// journal holds what sinks were told, such as "files leads 7" or "files follows".
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(name string, s election.State) {
	line := name + " follows"
	switch {
	case s.Leading():
		line = fmt.Sprintf("%s leads %d", name, s.Token)
	case s.Status == election.Leader:
		line = name + " is told to lead too late"
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if diff := cmp.Diff(want, j.lines); diff != "" {
		t.Errorf("sinks were told (-want +got):\n%s", diff)
	}
	j.lines = nil
}

// times notes when something happened. It has a lock because Sleep orders nothing in the eyes of the race
// detector, even in a bubble.
type times struct {
	mu sync.Mutex
	at []time.Time
}

func (n *times) add() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at = append(n.at, time.Now())
}

func (n *times) all() []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.at)
}

// start runs a Group of sinks for as long as the test takes.
func start(t *testing.T, o *sinks.Options, follow ...sinks.Sink) *sinks.Group {
	t.Helper()
	g := sinks.NewGroup(o, follow...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return g
}

func TestEffectsKeepTheirOrderAtBothEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		slow := func(context.Context, election.State) error { time.Sleep(time.Second); return nil }
		g := start(t, nil,
			&fake{name: "files", journal: &j, apply: slow},
			&fake{name: "stop hook", journal: &j},
			&fake{name: "label", journal: &j, apply: slow},
			&fake{name: "start hook", journal: &j})
		s := leader(t, 7)
		g.Publish(s)
		if err := g.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		j.expect(t, "files leads 7", "stop hook leads 7", "label leads 7", "start hook leads 7")
		g.Publish(after(s, election.SteppingDown))
		if err := g.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		j.expect(t, "files follows", "stop hook follows", "label follows", "start hook follows")
	})
}

func TestAFailingSinkHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		full := errors.New("no space left")
		g := start(t, nil,
			&fake{name: "files", journal: &j, apply: func(context.Context, election.State) error { return full }},
			&fake{name: "label", journal: &j})
		g.Publish(leader(t, 7))
		j.expect(t, "files leads 7", "label leads 7")
	})
}

func TestASinkThatIsLateNeverLeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		g := start(t, nil, &fake{name: "files", journal: &j, apply: func(context.Context, election.State) error {
			time.Sleep(time.Minute) // deaf, and longer than any lease
			return nil
		}})
		g.Publish(standby())
		synctest.Wait()
		g.Publish(leader(t, 7))
		if err := g.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		j.expect(t, "files follows", "files follows")
	})
}

func TestLeadingEndsByTheClockAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		g := start(t, nil, &fake{name: "files", journal: &j})
		s := leader(t, 7)
		g.Publish(s)
		j.expect(t, "files leads 7")
		for s.Leading() {
			time.Sleep(s.Remaining()) // the bubble's clock runs ahead of the machine's, which State asks too
		}
		j.expect(t, "files follows")
		if err := g.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		g.Publish(s.Current()) // what the elector says a little later
		j.expect(t)
	})
}

func TestBetweenTwoTermsLiesNotLeading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		refusals, resume := 2, make(chan struct{})
		g := start(t, nil, &fake{name: "hook", journal: &j, apply: func(_ context.Context, s election.State) error {
			switch {
			case s.Token == 7:
				<-resume // deaf while its first term ends and the next begins
			case !s.Leading() && refusals > 0:
				refusals--
				return errors.New("not yet")
			}
			return nil
		}})
		first, second := leader(t, 7), leader(t, 9)
		g.Publish(first)
		j.expect(t, "hook leads 7")
		g.Publish(after(first, election.Standby))
		g.Publish(second)
		close(resume)
		if err := g.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		j.expect(t, "hook follows", "hook follows", "hook follows", "hook leads 9")
	})
}

func TestATermThatWasAppliedInVainEndsToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		g := start(t, nil, &fake{name: "hook", journal: &j, apply: func(ctx context.Context, s election.State) error {
			if s.Token == 7 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		first, second := leader(t, 7), leader(t, 9)
		g.Publish(first)
		synctest.Wait()
		g.Publish(second)
		j.expect(t, "hook leads 7", "hook follows", "hook leads 9")
	})
}

func TestRenewalsGoToThoseThatAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		g := start(t, nil, &fake{name: "files", renewals: true, journal: &j}, &fake{name: "label", journal: &j})
		s := leader(t, 7)
		g.Publish(s)
		j.expect(t, "files leads 7", "label leads 7")
		g.Publish(s)
		j.expect(t, "files leads 7")
	})
}

func TestPublishNeverBlocksAndTheLatestWins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		resume := make(chan struct{})
		g := start(t, nil, &fake{name: "label", journal: &j, apply: func(context.Context, election.State) error {
			<-resume
			return nil
		}})
		s := standby()
		for range 10_000 {
			s.Revision++
			g.Publish(s)
			synctest.Wait()
		}
		close(resume)
		if err := g.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		j.expect(t, "label follows", "label follows")
	})
}

func TestNotifyComesBeforeEverySink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		g := start(t, &sinks.Options{Notify: func(s election.State) { j.add("http", s) }}, &fake{name: "files", journal: &j})
		s := leader(t, 7)
		g.Publish(s)
		j.expect(t, "http leads 7", "files leads 7")
		g.Publish(s)
		j.expect(t, "http leads 7")
	})
}

func TestTriesAgainWhileTheStateIsCurrent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		var log bytes.Buffer
		var tries times
		var up atomic.Bool
		g := start(t, &sinks.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			&fake{name: "label", journal: &j, apply: func(context.Context, election.State) error {
				tries.add()
				if up.Load() {
					return nil
				}
				return errors.New("connection refused")
			}})
		s := standby()
		g.Publish(s)
		time.Sleep(time.Minute)
		synctest.Wait()
		// 50 ms to 100 ms after the first failure, doubling up to 2.5 s to 5 s.
		all := tries.all()
		if n := len(all); n < 60/5 || n > 60/2+10 {
			t.Errorf("%d tries in a minute", n)
		}
		for i := range all[1:] {
			if d := all[i+1].Sub(all[i]); d < 50*time.Millisecond || d > 5*time.Second {
				t.Errorf("wait %d was %v", i, d)
			}
		}
		if first, last := all[1].Sub(all[0]), all[len(all)-1].Sub(all[len(all)-2]); first > 100*time.Millisecond || last < 2500*time.Millisecond {
			t.Errorf("waits grow from %v to %v", first, last)
		}
		g.Each(func(name string, inSync bool, failures uint64) {
			if name != "label" || inSync || failures != uint64(len(all)) {
				t.Errorf("%s in sync: %v, failures: %d; want label false %d", name, inSync, failures, len(all))
			}
		})

		s.Revision++
		g.Publish(s)
		synctest.Wait()
		if n := len(tries.all()) - len(all); n != 1 {
			t.Errorf("a new state is tried %d times at once, want 1", n)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if n := len(tries.all()) - len(all); n != 2 {
			t.Errorf("a new state is tried %d times in 100 ms, want 2: its pauses begin short again", n)
		}
		up.Store(true)
		if err := g.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.Each(func(_ string, inSync bool, _ uint64) {
			if !inSync {
				t.Error("not in sync after settling")
			}
		})
		text := log.String()
		if n := strings.Count(text, "level=WARN"); n != 1 || !strings.Contains(text, `err="connection refused"`) {
			t.Errorf("%d warnings for one streak:\n%s", n, text)
		}
		if n := strings.Count(text, "level=INFO"); n != 1 {
			t.Errorf("%d lines say that it works again:\n%s", n, text)
		}
	})
}

func TestRenewalsDoNotShortenThePauseAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries times
		g := start(t, nil, &fake{name: "files", renewals: true, journal: &journal{}, apply: func(context.Context, election.State) error {
			tries.add()
			return errors.New("read-only file system")
		}})
		s := leader(t, 7)
		for range 100 {
			g.Publish(s)
			synctest.Wait()
		}
		if n := len(tries.all()); n != 1 {
			t.Errorf("%d tries at one moment", n)
		}
	})
}

func TestSettleNamesWhoDisagrees(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		g := start(t, nil,
			&fake{name: "files", journal: &journal{}},
			&fake{name: "label", journal: &journal{}, apply: func(context.Context, election.State) error { return refused }},
			&fake{name: "hook", journal: &journal{}, apply: func(ctx context.Context, _ election.State) error {
				<-ctx.Done()
				return ctx.Err()
			}})
		if err := g.Settle(t.Context()); err != nil {
			t.Errorf("before anything was published: %v", err)
		}
		g.Publish(standby())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := g.Settle(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, refused) {
			t.Errorf("Settle: %v; want the context's and the sink's errors", err)
		}
		if text := fmt.Sprint(err); !strings.Contains(text, "sink label: connection refused") || !strings.Contains(text, "sink hook: not done yet") || strings.Contains(text, "files") {
			t.Errorf("Settle: %v", err)
		}
	})
}

func TestRunEndsWhatIsAtWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := sinks.NewGroup(&sinks.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			&fake{name: "hook", journal: &journal{}, apply: func(ctx context.Context, _ election.State) error {
				<-ctx.Done()
				return ctx.Err()
			}})
		g.Publish(standby())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Run(ctx); err != nil { // a goroutine left over would fail the bubble
			t.Error(err)
		}
		if log.Len() > 0 {
			t.Errorf("the end of Run is reported as a sink's failure:\n%s", log.String())
		}
	})
}
