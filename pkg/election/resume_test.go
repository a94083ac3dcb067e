package election_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func TestResumesTheTermOfAKilledPredecessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.holder, s.token, s.expires = "a", 5, time.Now().Add(5*time.Second)
		s.down = true
		a := start(t, s.client("a"), &election.Options{ResumeToken: 5})
		pass(t, 2*time.Second, a)
		if got := a.State(); !got.Resuming || got.Leading() {
			t.Errorf("state %+v, want resuming", got)
		}
		s.set(func() { s.down = false })
		await(t, 2*time.Second, "it leads", a.leads)
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
