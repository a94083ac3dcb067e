package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// Polling takes the place of notifications while the kernel has none left: one small read per interval.
const (
	pollInterval = 250 * time.Millisecond
	pollFor      = time.Minute // then notifications are tried again
)

// Watch notifies when the holder or the token in the state file changes, and not when a lease is
// renewed. Where the limit on inotify is used up it reads the file four times a second instead.
func (b *Backend) Watch(ctx context.Context, notify func()) error {
	return wrap("watch", b.watch(ctx, notify))
}

func (b *Backend) watch(ctx context.Context, notify func()) error {
	polls := false
	for {
		err := b.watchDirectory(ctx, notify)
		if !exhausted(err) {
			return err
		}
		if !polls {
			b.log.Warn("no inotify left, polling instead: raise fs.inotify.max_user_instances and max_user_watches",
				"mutex", b.contender.Mutex, "every", pollInterval, "err", err)
		}
		polls = true
		if err := b.poll(ctx, notify); err != nil {
			return err
		}
	}
}

// Exclusive is false: every standby on the machine learns of a change at once.
func (b *Backend) Exclusive() bool { return false }

// exhausted tells limits (instances and open files, watches) from a directory that cannot be watched.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOSPC)
}

func (b *Backend) watchDirectory(ctx context.Context, notify func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	// The directory and not the file, whose watch would end with the first rename over it.
	if err := w.Add(b.dir); err != nil {
		return fmt.Errorf("directory %s: %w", b.dir, err)
	}
	last := b.peek()
	notify()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.closed:
			return fs.ErrClosed
		case event, ok := <-w.Events:
			if !ok {
				return fmt.Errorf("directory %s: %w", b.dir, fsnotify.ErrClosed)
			}
			if event.Name == b.dir && event.Has(fsnotify.Remove|fsnotify.Rename) {
				return fmt.Errorf("directory %s was removed", b.dir)
			}
			if event.Name != b.stateFile {
				continue
			}
		case err, ok := <-w.Errors:
			if !ok || !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("directory %s: %w", b.dir, err)
			}
			// Events were lost: look.
		}
		last = b.compare(last, notify)
	}
}

func (b *Backend) poll(ctx context.Context, notify func()) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	last := b.peek()
	notify()
	for range int(pollFor / pollInterval) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.closed:
			return fs.ErrClosed
		case <-tick.C:
			last = b.compare(last, notify)
		}
	}
	return nil
}

// compare notifies if the mutex has changed hands since last, or may have.
func (b *Backend) compare(last state, notify func()) state {
	s := b.peek()
	if s != last {
		notify()
	}
	return s
}

// peek returns what the notifications are about: who holds which term, or held the last one, so that a term
// that came and went between two looks is noticed. An unreadable file is nobody's; whoever is notified of
// that finds out why.
func (b *Backend) peek() state {
	s, err := readState(b.stateFile, b.contender.Mutex)
	if err != nil || s.missing {
		return state{}
	}
	return state{Holder: s.Holder, Token: s.Token}
}
