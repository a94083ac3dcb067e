package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/simba-sidecar/simba-sidecar/internal/localfs"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

var (
	_ election.Backend = (*Backend)(nil)
	_ election.Watcher = (*Backend)(nil)
)

// Options are the optional parts of a Backend. The zero value, and a nil pointer, are usable.
type Options struct {
	// Logger is told at Warn when hints fall back to polling. nil discards.
	Logger *slog.Logger
}

// Backend is one contender for one mutex in a directory. It keeps no file open between calls.
type Backend struct {
	contender election.Contender
	dir       string
	stateFile string
	lockFile  string
	boot      string
	log       *slog.Logger
	now       func() (time.Duration, error) // CLOCK_BOOTTIME; a field so that a test can pass time

	seen    uint64 // the largest token of any call so far
	existed bool   // a call has found the state file: without it, the record is gone

	close  sync.Once
	closed chan struct{}
}

// Open returns a Backend for c in the absolute path dir, which it creates if only its last element is
// missing. Its errors are mistakes of configuration: a directory that cannot be used, or one that other
// machines may write. It reads no state.
func Open(dir string, c election.Contender, o *Options) (*Backend, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("directory %q is not absolute: write the whole path from /", dir)
	}
	dir = filepath.Clean(dir)
	if err := prepare(dir); err != nil {
		return nil, err
	}
	boot, err := localfs.BootID()
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	if o != nil && o.Logger != nil {
		log = o.Logger
	}
	base := filepath.Join(dir, fileName(c.Mutex))
	return &Backend{
		contender: c,
		dir:       dir,
		stateFile: base + ".json",
		lockFile:  base + ".lock",
		boot:      boot,
		log:       log,
		now:       boottime,
		closed:    make(chan struct{}),
	}, nil
}

// prepare makes sure that dir is a directory which this process can write and no other machine can.
//
//nolint:gosec // the operator names it; processes of other users may contend, so it is not for one alone
func prepare(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		// Only the last element: a mistyped path must not grow into a tree where nobody else looks.
		switch err := os.Mkdir(dir, 0o755); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("directory %s cannot be created, because %s does not exist: create that, or correct the path", dir, filepath.Dir(dir))
		case err != nil && !errors.Is(err, fs.ErrExist): // a contender that starts with us may have created it
			return fmt.Errorf("directory %s cannot be created: create it, writable for user %d: %w", dir, os.Getuid(), err)
		}
		info, err = os.Stat(dir)
	}
	if err != nil {
		return fmt.Errorf("directory %s cannot be used by user %d: %w", dir, os.Getuid(), err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory: name one, or remove what is in its place", dir)
	}
	if err := localfs.CheckLocal(dir); err != nil {
		return err
	}
	switch err := unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK); {
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("directory %s is mounted read-only: mount it writable, or name another: %w", dir, err)
	case err != nil:
		return fmt.Errorf("directory %s is not writable for user %d: give that user access (in a pod: securityContext.fsGroup), or name another: %w", dir, os.Getuid(), err)
	}
	return nil
}

// Acquire takes the mutex if its lease is over, extends the lease if it is this contender's own, and
// else reports the holder.
func (b *Backend) Acquire(ctx context.Context) (election.Lease, error) {
	lease, err := b.change(ctx, func(s *state, now time.Duration) bool {
		switch {
		case !s.live(b.boot, now):
			*s = state{
				Mutex: s.Mutex, Holder: b.contender.Identity, Token: 1 + max(s.Token, b.seen),
				Boot: b.boot, Expires: now + b.contender.Lease(),
			}
		case s.Holder == b.contender.Identity:
			s.extend(now + b.contender.Lease())
		default:
			return false
		}
		return true
	})
	return lease, wrap("acquire", err)
}

// Renew extends this contender's unexpired term with that token, and else reports the holder.
func (b *Backend) Renew(ctx context.Context, token uint64) (election.Lease, error) {
	lease, err := b.change(ctx, func(s *state, now time.Duration) bool {
		if !s.live(b.boot, now) || s.Holder != b.contender.Identity || s.Token != token {
			return false
		}
		s.extend(now + b.contender.Lease())
		return true
	})
	return lease, wrap("renew", err)
}

// Release ends this contender's unexpired term with that token, or with any token if it is 0. The token
// stays in the file.
func (b *Backend) Release(ctx context.Context, token uint64) error {
	_, err := b.change(ctx, func(s *state, now time.Duration) bool {
		if !s.live(b.boot, now) || s.Holder != b.contender.Identity || token != 0 && s.Token != token {
			return false
		}
		*s = state{Mutex: s.Mutex, Token: s.Token}
		return true
	})
	return wrap("release", err)
}

// Observe reports the holder. It takes no lock and writes nothing.
func (b *Backend) Observe(ctx context.Context) (election.Lease, error) {
	start, s, err := b.look(ctx)
	if err != nil {
		return election.Lease{}, wrap("observe", err)
	}
	return b.report(s, start, start), nil
}

// Close ends Watch. There is nothing else to free.
func (b *Backend) Close() error {
	b.close.Do(func() { close(b.closed) })
	return nil
}

// change is the one way to write. decide says whether it changed the state, and so holds it once that is
// written; otherwise nothing is written and the result is what Observe would report.
func (b *Backend) change(ctx context.Context, decide func(s *state, now time.Duration) bool) (election.Lease, error) {
	// A look without the lock first: whoever has lost anyway need not queue for it.
	start, before, err := b.look(ctx)
	if err != nil {
		return election.Lease{}, err
	}
	if after := before; !decide(&after, start) {
		return b.report(before, start, start), nil
	}
	lock, err := acquireLock(ctx, b.lockFile)
	if err != nil {
		return election.Lease{}, err
	}
	defer lock.release()
	now, before, err := b.look(ctx)
	if err != nil {
		return election.Lease{}, err
	}
	after := before
	if !decide(&after, now) {
		return b.report(before, start, now), nil
	}
	b.seen = max(b.seen, after.Token)
	err = after.replace(b.stateFile, func() error {
		// The disk may have kept us waiting, and others have read the old state by their clocks.
		late, err := b.now()
		if err == nil && before.live(b.boot, now) != before.live(b.boot, late) {
			err = fmt.Errorf("the disk of %s took longer than the lease had left", b.dir)
		}
		return errors.Join(err, lock.check(), ctx.Err())
	})
	if err == nil && after.Token != before.Token {
		// Leases end with the boot, so that only tokens have to outlast a crash.
		err = syncDirectory(b.dir)
	}
	if err != nil {
		return election.Lease{}, err
	}
	b.existed = true
	return election.Lease{Holder: after.Holder, Token: after.Token, Remaining: b.contender.Lease()}, nil
}

// look reads the clock and then the state. In this order, a lease that is live by that clock was live at
// some moment of the look, however long the process was stopped in between.
func (b *Backend) look(ctx context.Context) (now time.Duration, s state, err error) {
	select {
	case <-b.closed:
		return 0, state{}, fs.ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return 0, state{}, err
	}
	if now, err = b.now(); err != nil {
		return 0, state{}, err
	}
	if s, err = readState(b.stateFile, b.contender.Mutex); err != nil {
		return 0, state{}, err
	}
	b.seen = max(b.seen, s.Token)
	b.existed = b.existed || !s.missing
	return now, s, nil
}

// report turns the state that was read at now into what a call that began at start learned.
func (b *Backend) report(s state, start, now time.Duration) election.Lease {
	if s.live(b.boot, now) {
		return election.Lease{Holder: s.Holder, Token: s.Token, Remaining: s.Expires - start}
	}
	return election.Lease{Lapsed: s.Holder != "" || s.missing && b.existed}
}

func wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", call, err)
}
