package election_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

const (
	ttl        = 10 * time.Second
	transition = 6 * time.Second
	lease      = ttl + transition
)

// process is one running Elector.
type process struct {
	*election.Elector
	*sinks
	backend *client
	cancel  context.CancelFunc
	running func() bool // not cancelled
	ran     chan error
}

func start(t *testing.T, b *client, o *election.Options, prepare ...func(*election.Elector)) *process {
	t.Helper()
	return startOn(t, b, b, o, prepare...)
}

// startOn is start with something between the Elector and its client.
func startOn(t *testing.T, on election.Backend, b *client, o *election.Options, prepare ...func(*election.Elector)) *process {
	t.Helper()
	p := &process{sinks: &sinks{}, backend: b, ran: make(chan error, 1)}
	e, err := election.New(on, b.c, p.sinks, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range prepare {
		f(e)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.Elector, p.cancel = e, cancel
	p.running = func() bool { return ctx.Err() == nil }
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.ran)
		p.ran <- e.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		time.Sleep(time.Minute) // of fake time: deaf calls end
	})
	return p
}

// stop ends the process gracefully.
func (p *process) stop() error {
	p.cancel()
	return <-p.ran
}

// await passes fake time until ok, checking at every millisecond that at most one of ps leads.
func await(t *testing.T, limit time.Duration, what string, ok func() bool, ps ...*process) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		oneLeads(t, ps...)
		if ok() {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func oneLeads(t *testing.T, ps ...*process) {
	t.Helper()
	var leaders []string
	for _, p := range ps {
		if s := p.State(); s.Leading() {
			leaders = append(leaders, fmt.Sprintf("%s (%d)", s.Identity, s.Token))
		}
	}
	if len(leaders) > 1 {
		t.Fatalf("more than one leads: %v", leaders)
	}
}

func (p *process) leads() bool { return p.State().Leading() }

// pass lets fake time pass, checking all the while.
func pass(t *testing.T, d time.Duration, ps ...*process) {
	t.Helper()
	begin := time.Now()
	await(t, 2*d, "time passes", func() bool { return time.Since(begin) >= d }, ps...)
}

func TestStandbysWriteNothingAndReadRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), nil)
		await(t, time.Second, "a leads", a.leads)
		b := start(t, s.client("b"), nil)
		pass(t, lease, a, b)
		s.set(func() { clear(s.reads); clear(s.writes) })
		const windows = 30
		pass(t, windows*ttl, a, b)
		writes, reads := s.counts()
		if w := writes["a"]; w < 3*windows-1 || w > 3*windows+1 {
			t.Errorf("the leader wrote %d times in %d windows, want 3 each", w, windows)
		}
		if writes["b"] != 0 || reads["a"] != 0 {
			t.Errorf("the standby wrote %d times, the leader read %d times, want 0", writes["b"], reads["a"])
		}
		if r := reads["b"]; r == 0 || r > windows {
			t.Errorf("the standby read %d times in %d TTLs, want at most one each", r, windows)
		}
		if got := a.terms(); !cmp.Equal(got, []uint64{1}) {
			t.Errorf("terms %v, want one", got)
		}
	})
}

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

func TestHandsOverWithoutHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), nil)
		await(t, time.Second, "a leads", a.leads)
		b := s.client("b")
		b.cut = true // subscribed, and never told
		p := start(t, b, nil)
		pass(t, time.Second, a, p)
		_ = a.stop()
		await(t, lease+100*time.Millisecond, "the other leads", p.leads, a, p)
	})
}

func TestSuccessorLeadsWithinTheLeaseAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), nil)
		await(t, time.Second, "a leads", a.leads)
		b := start(t, s.client("b"), nil)
		pass(t, 25*time.Second, a, b)
		s.set(func() { a.backend.faults = func(string) fault { return fault{before: errDown} } }) // as good as dead
		await(t, lease+100*time.Millisecond, "b leads", b.leads, a, b)
	})
}

func TestLeadsUntilTheDeadlineAndNotLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), nil)
		await(t, time.Second, "a leads", a.leads)
		pass(t, 4*time.Second, a) // one renewal
		until := time.Now().Add(a.State().Remaining())
		s.set(func() { s.down = true })
		stale := a.State()
		await(t, ttl, "a does not lead", func() bool { return !a.leads() })
		if late := time.Since(until); late < 0 || late > time.Millisecond {
			t.Errorf("leading ended %v after the deadline", late)
		}
		if stale.Leading() || stale.Remaining() != 0 || !stale.ExpiresAt().IsZero() {
			t.Error("a stale copy of the state still leads")
		}
		synctest.Wait()
		published := a.last()
		seen := stale.Current()
		if seen.Revision != published.Revision || seen.Status != published.Status || seen.Holder != published.Holder {
			t.Errorf("readers saw %+v, then %+v was published", seen, published)
		}
		if !strings.Contains(published.Reason, errDown.Error()) {
			t.Errorf("reason %q does not name the error", published.Reason)
		}
	})
}

func TestSurvivesAStoreThatIsDownForThreeLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, b := start(t, s.client("a"), nil), start(t, s.client("b"), nil)
		await(t, time.Second, "one leads", func() bool { return a.leads() || b.leads() }, a, b)
		s.set(func() { s.down = true })
		await(t, lease, "none leads", func() bool { return !a.leads() && !b.leads() }, a, b)
		for range 3 * int(lease/time.Second) {
			pass(t, time.Second, a, b)
			if a.leads() || b.leads() {
				t.Fatal("leading without a store")
			}
			if err := errors.Join(a.Live(), b.Live()); err != nil {
				t.Fatalf("not alive because the store is down: %v", err)
			}
		}
		for _, p := range []*process{a, b} {
			if got := p.State().Status; got != election.Unknown {
				t.Errorf("status %s, want unknown", got)
			}
		}
		s.set(func() { s.down = false })
		await(t, 5*time.Second, "one leads again", func() bool { return a.leads() || b.leads() }, a, b)
		if _, token := s.owner(); token != 2 {
			t.Errorf("token %d, want 2", token)
		}
	})
}

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
		const lag = 3 * time.Second // shorter than the time between two renewals, which start it anew
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
		if err := a.stop(); err != nil {
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

func TestLosesAtOnceWhenTheStoreSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), nil)
		await(t, time.Second, "a leads", a.leads)
		s.set(func() { s.holder, s.token, s.expires = "x", 7, time.Now().Add(lease) })
		await(t, ttl/3+10*time.Millisecond, "a does not lead", func() bool { return !a.leads() })
		if got := a.State(); got.Status != election.Standby || got.Holder != "x" || got.Token != 7 {
			t.Errorf("state %+v", got)
		}
		if holder, _ := s.owner(); holder != "x" {
			t.Error("released somebody else's term")
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

func TestResumesTheTermOfAKilledPredecessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.holder, s.token, s.expires = "a", 5, time.Now().Add(4*time.Second)
		s.down = true
		a := start(t, s.client("a"), &election.Options{ResumeToken: 5})
		pass(t, 2*time.Second, a)
		if got := a.State(); !got.Resuming || got.Leading() {
			t.Errorf("state %+v, want resuming", got)
		}
		s.set(func() { s.down = false })
		await(t, time.Second, "it leads", a.leads)
		if got := a.State(); got.Token != 5 || got.Resuming {
			t.Errorf("state %+v, want the same term", got)
		}
		for _, p := range a.published() {
			if p.Status != election.Leader && !p.Resuming {
				t.Errorf("published %+v before the term was resumed", p)
			}
		}
	})
}

func TestResumesNoTermThatIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.holder, s.token, s.expires = "a", 5, time.Now().Add(-time.Second)
		a := start(t, s.client("a"), &election.Options{ResumeToken: 5})
		await(t, time.Second, "it leads", a.leads)
		if got := a.terms(); !cmp.Equal(got, []uint64{6}) {
			t.Errorf("terms %v, want a new one", got)
		}
	})
}

func TestGivesUpResumingWhenTheOldLeaseIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.holder, s.token, s.expires = "a", 5, time.Now().Add(lease)
		s.down = true
		a := start(t, s.client("a"), &election.Options{ResumeToken: 5})
		await(t, lease+time.Second, "resuming ends", func() bool { return !a.State().Resuming })
		if a.leads() {
			t.Error("leads without a store")
		}
	})
}

func TestStopWhileResumingSettlesAndReleases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.holder, s.token, s.expires = "a", 5, time.Now().Add(lease)
		b := s.client("a")
		b.faults = func(call string) fault {
			if call == "renew" {
				return fault{before: errDown}
			}
			return fault{}
		}
		a := start(t, b, &election.Options{ResumeToken: 5})
		a.slow(time.Second)
		pass(t, time.Second)
		begin := time.Now()
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
		if holder, _ := s.owner(); holder != "" {
			t.Errorf("held by %q", holder)
		}
		if d := time.Since(begin); d < time.Second {
			t.Errorf("released after %v, before the sinks had settled", d)
		}
	})
}

func TestAnObserverOnlyFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		o := start(t, s.client("o"), &election.Options{ObserveOnly: true})
		pass(t, time.Minute, o)
		a := start(t, s.client("a"), nil)
		await(t, ttl+time.Second, "the observer sees a", func() bool { return o.State().Holder == "a" }, a, o)
		if got := o.State(); got.Status != election.Observer || got.Token != 1 || got.Leading() {
			t.Errorf("state %+v", got)
		}
		_ = a.stop()
		await(t, time.Second, "the observer sees the release", func() bool { return o.State().Holder == "" }, a, o)
		pass(t, 2*lease, a, o)
		if writes, _ := s.counts(); writes["o"] != 0 {
			t.Errorf("an observer wrote %d times", writes["o"])
		}
	})
}

func TestFailFastReturnsTheFirstRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.down = true
		a := start(t, s.client("a"), &election.Options{FailFast: true})
		if err := <-a.ran; !errors.Is(err, errDown) {
			t.Errorf("got %v", err)
		}
		if err := a.Ready(); !errors.Is(err, errDown) {
			t.Errorf("ready: %v", err)
		}
	})
}

func TestReadyOnceTheStoreHasAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.down = true
		a := start(t, s.client("a"), nil)
		pass(t, time.Second)
		if err := a.Ready(); !errors.Is(err, errDown) {
			t.Errorf("ready: %v", err)
		}
		s.set(func() { s.down = false })
		await(t, 5*time.Second, "ready", func() bool { return a.Ready() == nil })
		s.set(func() { s.down = true })
		pass(t, lease)
		if err := a.Ready(); err != nil {
			t.Errorf("no longer ready because the store went down: %v", err)
		}
	})
}

func TestRevisionIgnoresRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a := start(t, s.client("a"), nil)
		await(t, time.Second, "a leads", a.leads)
		before := a.State()
		pass(t, time.Minute, a)
		if got := a.State(); got.Revision != before.Revision || !got.Since.Equal(before.Since) {
			t.Errorf("%+v became %+v by renewals", before, got)
		}
		if n := len(a.published()); n < 18 {
			t.Errorf("%d states published in a minute, want every renewal", n)
		}
		_ = a.stop()
		if a.last().Revision == before.Revision {
			t.Error("the revision survived the end of leading")
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

func TestLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, b := s.client("a"), s.client("b")
		first, err := election.Lock(t.Context(), a, a.c, nil)
		if err != nil {
			t.Fatal(err)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := election.Lock(impatient, b, b.c, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v while a holds", err)
		}
		if first.Err() != nil || first.Token() != 1 {
			t.Errorf("err %v, token %d", first.Err(), first.Token())
		}
		if err := first.Unlock(); err != nil {
			t.Fatal(err)
		}
		if first.Err() == nil || errors.Is(context.Cause(first), election.ErrLost) {
			t.Errorf("after Unlock: err %v, cause %v", first.Err(), context.Cause(first))
		}
		second, err := election.Lock(t.Context(), b, b.c, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.down = true })
		<-second.Done()
		if cause := context.Cause(second); !errors.Is(cause, election.ErrLost) {
			t.Errorf("cause %v, want ErrLost", cause)
		}
		s.set(func() { s.down = false })
		pass(t, 2*lease)
		if holder, token := s.owner(); holder != "" || token != 2 {
			t.Errorf("store says %q %d after the loss, want no further term", holder, token)
		}
		if err := second.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestContenderValidate(t *testing.T) {
	t.Parallel()
	c := election.Contender{Mutex: " ", Identity: "a@@b", TTL: time.Millisecond, Transition: time.Millisecond}
	err := c.Validate()
	for _, want := range []string{"mutex", "@@", "ttl 1ms", "transition 1ms"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	c = election.Contender{Mutex: strings.Repeat("ü", 66), Identity: strings.Repeat("i", 128), TTL: time.Second, Transition: 500 * time.Millisecond}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
