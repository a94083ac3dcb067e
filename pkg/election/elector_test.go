package election_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

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

// TestAStoreThatOnlyReads is what a forgotten grant, or a missing table, looks like.
func TestAStoreThatOnlyReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		b := s.client("a")
		errDenied := errors.New("INSERT denied")
		var denied atomic.Bool
		denied.Store(true)
		b.faults = func(call string) fault {
			if call == "acquire" && denied.Load() {
				return fault{before: errDenied}
			}
			return fault{}
		}
		a := start(t, b, nil)
		pass(t, time.Minute, a)
		if _, reads := s.counts(); reads["a"] > 60 {
			t.Errorf("%d attempts in a minute: no backoff", reads["a"])
		}
		if err := a.Ready(); !errors.Is(err, errDenied) {
			t.Errorf("ready: %v", err)
		}
		if got := a.State(); !strings.Contains(got.Reason, errDenied.Error()) {
			t.Errorf("state %+v does not say why", got)
		}
		denied.Store(false)
		await(t, ttl, "a leads", a.leads)
		if got := a.State(); got.Reason != "" || a.Ready() != nil {
			t.Errorf("state %+v, ready: %v", got, a.Ready())
		}
		quick := s.client("quick")
		quick.faults = func(call string) fault {
			if call == "acquire" {
				return fault{before: errDenied}
			}
			return fault{}
		}
		_ = a.stop()
		if err := <-start(t, quick, &election.Options{FailFast: true}).ran; !errors.Is(err, errDenied) {
			t.Errorf("fail-fast: %v", err)
		}
	})
}
