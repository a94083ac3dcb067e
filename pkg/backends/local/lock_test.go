package local

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func TestLockIsNotHeldOnceItsFileWasDeleted(t *testing.T) {
	t.Parallel()
	path := newMachine(t).open(t, contender("orders", "a")).lockFile
	first, err := acquireLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.release()
	if _, err := tryLock(path); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("got %v for a second lock", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := first.check(); err == nil || !strings.Contains(err.Error(), "deleted") {
		t.Errorf("got %v after the deletion", err)
	}
	second, err := acquireLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.release()
	if err := first.check(); err == nil {
		t.Error("the first still passes as the lock")
	}
	if err := second.check(); err != nil {
		t.Error(err)
	}
}

// interrupt runs f once, at a call's n-th look at the clock: 1 before the lock, 2 under it, 3 when the
// new state is about to be renamed into place.
func interrupt(b *Backend, n int, f func()) {
	now := b.now
	b.now = func() (time.Duration, error) {
		if n--; n == 0 {
			f()
		}
		return now()
	}
}

func TestLosingTheLockInTheMiddleLeavesTheStateAlone(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a, b := m.open(t, contender("orders", "a")), m.open(t, contender("orders", "b"))
	var won election.Lease
	interrupt(a, 3, func() {
		if err := os.Remove(a.lockFile); err != nil {
			t.Error(err)
		}
		won = acquire(t, b)
	})
	if l, err := a.Acquire(t.Context()); err == nil {
		t.Errorf("got %+v without the lock", l)
	}
	same(t, "observe", observe(t, a), won)
	if won.Holder != "b" {
		t.Errorf("got %+v", won)
	}
}

func TestSlowDiskRevivesNoTerm(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a := m.open(t, contender("orders", "a"))
	won := acquire(t, a)
	m.now += lease - 1
	interrupt(a, 3, func() { m.now++ })
	if l, err := a.Renew(t.Context(), won.Token); err == nil {
		t.Errorf("got %+v after the lease's end", l)
	}
	same(t, "observe", observe(t, a), election.Lease{Lapsed: true})
}

func TestGivenUpCallTakesNoEffect(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a := m.open(t, contender("orders", "a"))
	for n := 1; n <= 3; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		interrupt(a, n, cancel)
		l, err := a.Acquire(ctx)
		if n == 2 && err == nil {
			t.Errorf("given up at look %d: got %+v", n, l)
		}
		if n != 2 && !errors.Is(err, context.Canceled) {
			t.Errorf("given up at look %d: got %+v, %v", n, l, err)
		}
		same(t, "observe", observe(t, a), election.Lease{})
	}
	files, err := os.ReadDir(m.dir)
	if err != nil || len(files) != 1 {
		t.Errorf("left %v (%v)", files, err)
	}
}

func TestLoserDoesNotQueueForTheLock(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a, b := m.open(t, contender("orders", "a")), m.open(t, contender("orders", "b"))
	won := acquire(t, a)
	held, err := acquireLock(t.Context(), a.lockFile)
	if err != nil {
		t.Fatal(err)
	}
	defer held.release()
	same(t, "acquire", acquire(t, b), won)
	same(t, "renew", renew(t, b, won.Token), won)
	release(t, b, 0)
}
