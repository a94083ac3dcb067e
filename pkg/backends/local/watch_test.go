package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watching runs Watch and returns its notifications, and its error once it ends.
func watching(t *testing.T, b *Backend) (notified chan struct{}, ended chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	notified, ended = make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- b.Watch(ctx, func() { notified <- struct{}{} }) }()
	t.Cleanup(cancel)
	receive(t, "subscription", notified)
	return notified, ended, cancel
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing came", what)
		panic("unreachable")
	}
}

func TestNotifiesOfChangesOfHandsAndNotOfRenewals(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a, b := m.open(t, contender("orders", "a")), m.open(t, contender("orders", "b"))
	other := m.open(t, contender("Orders", "c"))
	notified, _, _ := watching(t, b)
	won := acquire(t, a)
	receive(t, "acquire", notified)
	for range 20 {
		renew(t, a, won.Token)
		acquire(t, other)
		release(t, other, 0)
	}
	release(t, a, won.Token)
	receive(t, "release", notified)
	acquire(t, b)
	receive(t, "own acquire", notified)
	if err := os.Remove(b.stateFile); err != nil {
		t.Fatal(err)
	}
	receive(t, "deletion", notified)
	if n := len(notified); n != 0 {
		t.Errorf("%d more notifications than changes of hands", n)
	}
}

func TestWatchEndsWithItsContextAndWithClose(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a := m.open(t, contender("orders", "a"))
	_, ended, stop := watching(t, a)
	stop()
	if err := receive(t, "end", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	_, ended, _ = watching(t, a)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := receive(t, "end", ended); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestWatchAndCallsSayThatTheDirectoryIsGone(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	a := m.open(t, contender("orders", "a"))
	acquire(t, a)
	_, ended, _ := watching(t, a)
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, "end", ended); err == nil || !strings.Contains(err.Error(), m.dir+" was removed") {
		t.Errorf("got %v", err)
	}
	if err := a.Watch(t.Context(), func() {}); err == nil || !strings.Contains(err.Error(), m.dir) {
		t.Errorf("got %v", err)
	}
	if l, err := a.Observe(t.Context()); err == nil || !strings.Contains(err.Error(), "create it again") {
		t.Errorf("got %+v, %v", l, err)
	}
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if l := acquire(t, a); l.Holder != "a" {
		t.Errorf("got %+v after the remedy", l)
	}
}

func TestPollsWhereInotifyIsUsedUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := child(t, "watch without inotify", dir)
	asNobody(t, cmd, dir)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// watchWithoutInotify uses up this user's inotify instances and then watches.
func watchWithoutInotify(dir string) error {
	for range 1 << 16 {
		w, err := fsnotify.NewWatcher()
		if exhausted(err) {
			break
		}
		if err != nil {
			return err
		}
		defer func() { _ = w.Close() }()
	}
	var log bytes.Buffer
	b, err := Open(dir, contender("orders", "b"), &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	notified, ended := make(chan struct{}, 10), make(chan error, 1)
	go func() { ended <- b.Watch(ctx, func() { notified <- struct{}{} }) }()
	for range 2 { // the subscription and the acquisition
		select {
		case <-notified:
		case err := <-ended:
			return fmt.Errorf("watch ended: %w", err)
		}
		if _, err := b.Acquire(ctx); err != nil {
			return err
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		return err
	}
	if !strings.Contains(log.String(), "fs.inotify.max_user_instances") {
		return fmt.Errorf("the log does not name the remedy: %s", log.String())
	}
	return nil
}
