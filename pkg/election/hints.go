package election

import (
	"context"
	"sync/atomic"
	"time"
)

// hints are wake-ups from a Watcher: never facts.
type hints struct {
	wake      chan struct{}
	pending   bool        // one came that no call has answered yet
	standing  atomic.Bool // the subscription stands, so polling may be rare
	exclusive bool
}

// takeHint brings forward the next read if a hint asks for it. While we lead, hints change nothing.
func (l *loop) takeHint() bool {
	if !l.hints.pending || l.inFlight {
		return false
	}
	l.hints.pending = false
	if l.phase != contending || l.next != observe {
		return false
	}
	at := time.Now()
	if !l.hints.exclusive {
		at = at.Add(l.jitter(hintSpread))
	}
	if at.Before(l.due) {
		l.due = at
	}
	return true
}

// follow watches for as long as the loop runs, where the backend can. It returns what ends it.
func (l *loop) follow() (stop func()) {
	w, ok := l.backend.(Watcher)
	if !ok {
		return func() {}
	}
	l.hints.exclusive = w.Exclusive()
	ctx, cancel := context.WithCancel(l.calls)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.watch(ctx, w)
	}()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(l.callTimeout()): // deaf: nothing of ours depends on it
		}
	}
}

func (l *loop) watch(ctx context.Context, w Watcher) {
	notify := func() {
		if !l.hints.standing.Swap(true) {
			l.log.Debug("hints stand")
		}
		select {
		case l.hints.wake <- struct{}{}:
		default:
		}
	}
	for wait, limit := time.Duration(0), l.contender.TTL/4; ; {
		err := w.Watch(ctx, notify)
		stood := l.hints.standing.Swap(false)
		if ctx.Err() != nil {
			return
		}
		if stood {
			wait = 0
		}
		if wait == 0 {
			l.log.Warn("no hints from the store: polling until they come back", "err", err)
		}
		wait = min(limit, max(100*time.Millisecond, 2*wait))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait - l.jitter(wait/2)):
		}
	}
}
