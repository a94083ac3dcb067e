package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fileLock is a locked lock file. The kernel frees it when the process ends, however it ends.
type fileLock struct{ f *os.File }

// acquireLock waits for the lock until ctx ends. flock has no time-out, so it asks again and again; the
// lock is held for one small write only.
func acquireLock(ctx context.Context, path string) (fileLock, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, 16*time.Millisecond) {
		l, err := tryLock(path)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return fileLock{}, fmt.Errorf("lock file %s is held by another process: %w", path, ctx.Err())
		case <-time.After(wait/2 + rand.N(wait)): //nolint:gosec // spreads contenders
		}
	}
}

func tryLock(path string) (fileLock, error) {
	f, err := openLockFile(path)
	if err != nil {
		return fileLock{}, err
	}
	for {
		// Nothing but the descriptor matters to flock, so that any contender may open the file for reading.
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	l := fileLock{f}
	if err != nil {
		err = fmt.Errorf("lock file %s: %w", path, err)
	} else {
		err = l.check()
	}
	if err != nil {
		l.release()
		return fileLock{}, err
	}
	return l, nil
}

// openLockFile creates the file only after it was not found: opening another user's file with O_CREATE
// is forbidden in world-writable directories (sysctl fs.protected_regular).
func openLockFile(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0) //nolint:gosec // a derived name
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		//nolint:gosec // contenders may run as other users; who may enter the directory decides
		f, err = os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// check returns EWOULDBLOCK, as if the lock were busy, if its file is no longer the one that others
// would open: cleaners of temporary folders delete files that are in use.
func (l fileLock) check() error {
	ours, err := l.f.Stat()
	if err != nil {
		return err
	}
	theirs, err := os.Lstat(l.f.Name())
	if err == nil && os.SameFile(ours, theirs) {
		return nil
	}
	return fmt.Errorf("lock file %s was deleted: %w", l.f.Name(), unix.EWOULDBLOCK)
}

func (l fileLock) release() { _ = l.f.Close() }
