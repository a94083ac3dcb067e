package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

const lease = 16 * time.Second

func contender(mutex, identity string) election.Contender {
	return election.Contender{Mutex: mutex, Identity: identity, TTL: 10 * time.Second, Transition: 6 * time.Second}
}

// machine is a directory and the clock of the machine that it is on.
type machine struct {
	dir string
	now time.Duration
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return &machine{dir: t.TempDir(), now: time.Hour}
}

func (m *machine) open(t *testing.T, c election.Contender) *Backend {
	t.Helper()
	b, err := Open(m.dir, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.now = func() (time.Duration, error) { return m.now, nil }
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func acquire(t *testing.T, b *Backend) election.Lease {
	t.Helper()
	l, err := b.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func renew(t *testing.T, b *Backend, token uint64) election.Lease {
	t.Helper()
	l, err := b.Renew(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func observe(t *testing.T, b *Backend) election.Lease {
	t.Helper()
	l, err := b.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func release(t *testing.T, b *Backend, token uint64) {
	t.Helper()
	if err := b.Release(t.Context(), token); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, got, want election.Lease) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestOneTermFromFreeToFree(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a, b := m.open(t, contender("orders", "a")), m.open(t, contender("orders", "b"))
	same(t, "observe when nobody ever led", observe(t, b), election.Lease{})

	won := acquire(t, a)
	if won.Token == 0 {
		t.Error("the first token is 0")
	}
	same(t, "acquire", won, election.Lease{Holder: "a", Token: won.Token, Remaining: lease})
	m.now += 4 * time.Second
	same(t, "acquire by another", acquire(t, b), election.Lease{Holder: "a", Token: won.Token, Remaining: lease - 4*time.Second})
	same(t, "renew", renew(t, a, won.Token), election.Lease{Holder: "a", Token: won.Token, Remaining: lease})
	same(t, "observe", observe(t, b), election.Lease{Holder: "a", Token: won.Token, Remaining: lease})
	release(t, a, won.Token)
	same(t, "observe after the release", observe(t, b), election.Lease{})
	same(t, "acquire after the release", acquire(t, b), election.Lease{Holder: "b", Token: won.Token + 1, Remaining: lease})
	same(t, "renew of the released term", renew(t, a, won.Token), election.Lease{Holder: "b", Token: won.Token + 1, Remaining: lease})
}

func TestLeaseEndsExactlyAtItsEnd(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a, b := m.open(t, contender("orders", "a")), m.open(t, contender("orders", "b"))
	won := acquire(t, a)
	m.now += lease - 1
	same(t, "a nanosecond before", acquire(t, b), election.Lease{Holder: "a", Token: won.Token, Remaining: 1})
	m.now++
	same(t, "observe at the end", observe(t, b), election.Lease{Lapsed: true})
	same(t, "renew at the end", renew(t, a, won.Token), election.Lease{Lapsed: true})
	release(t, a, won.Token)
	same(t, "observe after a late release", observe(t, b), election.Lease{Lapsed: true})
	same(t, "acquire at the end", acquire(t, b), election.Lease{Holder: "b", Token: won.Token + 1, Remaining: lease})
}

func TestOwnLeaseIsAdoptedWhileItLastsAndReplacedAfterwards(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	won := acquire(t, m.open(t, contender("orders", "a")))
	m.now += lease - 1
	again := m.open(t, contender("orders", "a"))
	same(t, "adoption", acquire(t, again), won)
	m.now += lease
	same(t, "own lapsed term", acquire(t, again), election.Lease{Holder: "a", Token: won.Token + 1, Remaining: lease})
}

func TestStaleAndForeignTokensChangeNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a, b := m.open(t, contender("orders", "a")), m.open(t, contender("orders", "b"))
	stale := acquire(t, a)
	release(t, a, stale.Token)
	won := acquire(t, a)
	content, err := os.ReadFile(a.stateFile)
	if err != nil {
		t.Fatal(err)
	}
	m.now += time.Second
	left := election.Lease{Holder: "a", Token: won.Token, Remaining: lease - time.Second}
	for _, token := range []uint64{0, stale.Token, won.Token + 1} {
		same(t, "renew", renew(t, a, token), left)
	}
	for _, token := range []uint64{stale.Token, won.Token + 1} {
		release(t, a, token)
	}
	for _, token := range []uint64{0, won.Token} {
		same(t, "renew by another", renew(t, b, token), left)
		release(t, b, token)
	}
	after, err := os.ReadFile(a.stateFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(content), string(after)); diff != "" {
		t.Errorf("the file changed:\n%s", diff)
	}
	release(t, a, 0)
	same(t, "observe after release of any term", observe(t, b), election.Lease{})
}

func TestExpiryNeverMovesBack(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	long, short := contender("orders", "a"), contender("orders", "a")
	short.TTL, short.Transition = time.Second, time.Second
	won := acquire(t, m.open(t, long))
	s, b := m.open(t, short), m.open(t, contender("orders", "b"))
	left := election.Lease{Holder: "a", Token: won.Token, Remaining: lease}
	grant := election.Lease{Holder: "a", Token: won.Token, Remaining: 2 * time.Second}
	same(t, "shorter renewal", renew(t, s, won.Token), grant)
	same(t, "observe", observe(t, b), left)
	same(t, "shorter adoption", acquire(t, s), grant)
	same(t, "observe", observe(t, b), left)
}

func TestRebootEndsEveryLeaseAndKeepsTokens(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a := m.open(t, contender("orders", "a"))
	won := acquire(t, a)
	m.now = time.Second
	b := m.open(t, contender("orders", "b"))
	b.boot = "the next one"
	same(t, "observe", observe(t, b), election.Lease{Lapsed: true})
	same(t, "acquire", acquire(t, b), election.Lease{Holder: "b", Token: won.Token + 1, Remaining: lease})
}

func TestTokensGrowAfterTheFileWasDeleted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a, b := m.open(t, contender("orders", "a")), m.open(t, contender("orders", "b"))
	began := time.Now()
	won := acquire(t, a)
	if won.Token <= uint64(began.UnixMicro()) {
		t.Errorf("the first token %d is below those of a file deleted just before", won.Token)
	}
	for range 3 { // faster than the wall clock that new files start from, perhaps
		observe(t, b)
		if err := os.Remove(a.stateFile); err != nil {
			t.Fatal(err)
		}
		same(t, "renew after deletion", renew(t, a, won.Token), election.Lease{Lapsed: true})
		next := acquire(t, b)
		if next.Holder != b.contender.Identity || next.Token <= won.Token {
			t.Fatalf("got %+v after %+v", next, won)
		}
		a, b, won = b, a, next
	}
	// A clock that was wrong: what this process has seen counts more than the wall clock.
	b.seen = won.Token + 1e9
	release(t, a, won.Token)
	if next := acquire(t, b); next.Token != won.Token+1e9+1 {
		t.Errorf("got %+v after a token of %d was seen", next, won.Token+1e9)
	}
}

func TestFileThatMakesNoSenseIsAnErrorAndNotAFreeMutex(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty":             "",
		"cut off":           `{"mutex":"orders","holder":"a","tok`,
		"two":               `{"mutex":"orders","token":1}{"mutex":"orders","token":1}`,
		"another mutex":     `{"mutex":"Orders","token":1}`,
		"negative token":    `{"mutex":"orders","token":-1}`,
		"holder without":    `{"mutex":"orders","holder":"a","token":3}`,
		"no content at all": "null",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newMachine(t).open(t, contender("orders", "a"))
			if err := os.WriteFile(a.stateFile, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, acquired := a.Acquire(t.Context())
			_, renewed := a.Renew(t.Context(), 1)
			_, observed := a.Observe(t.Context())
			for _, err := range []error{acquired, renewed, observed, a.Release(t.Context(), 0)} {
				if err == nil || !strings.Contains(err.Error(), a.stateFile) || !strings.Contains(err.Error(), "delete it") {
					t.Errorf("got %v, want an error with the file and the remedy", err)
				}
			}
			after, err := os.ReadFile(a.stateFile)
			if err != nil || string(after) != content {
				t.Errorf("the file was changed to %q (%v)", after, err)
			}
			if err := os.Remove(a.stateFile); err != nil {
				t.Fatal(err)
			}
			if l := acquire(t, a); l.Holder != "a" {
				t.Errorf("got %+v after the remedy", l)
			}
		})
	}
}

func TestObserveWritesNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	b := m.open(t, contender("orders", "b"))
	observe(t, b)
	left, err := os.ReadDir(m.dir)
	if err != nil || len(left) != 0 {
		t.Errorf("found %v (%v)", left, err)
	}
}

func TestLeavesOnlyItsTwoFilesBehind(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a := m.open(t, contender("orders", "a"))
	won := acquire(t, a)
	renew(t, a, won.Token)
	release(t, a, won.Token)
	var got []string
	files, err := os.ReadDir(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		got = append(got, filepath.Join(m.dir, f.Name()))
	}
	if diff := cmp.Diff([]string{a.stateFile, a.lockFile}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestHonoursContext(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a := m.open(t, contender("orders", "a"))
	held, err := acquireLock(t.Context(), a.lockFile)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := a.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), a.lockFile) {
		t.Errorf("got %v while the lock is held", err)
	}
	held.release()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Acquire(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v with an ended context", err)
	}
	same(t, "observe", observe(t, a), election.Lease{})
	if l := acquire(t, a); l.Holder != "a" {
		t.Errorf("got %+v with a free lock", l)
	}
}

func TestClosedBackendRefuses(t *testing.T) {
	t.Parallel()
	a := newMachine(t).open(t, contender("orders", "a"))
	for range 2 {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Acquire(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := a.Watch(t.Context(), func() {}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
