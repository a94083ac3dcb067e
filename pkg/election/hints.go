package election

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// hints are wake-ups from a Watcher: never facts.
type hints struct {
	wake      chan struct{}
	pending   bool        // one came that no call has answered yet
	standing  atomic.Bool // the subscription stands, so polling may be rare
	exclusive bool

	mu         sync.Mutex
	quietUntil time.Time          // no watching before
	interrupt  context.CancelFunc // ends the Watch at work; nil before the first
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
	if !ok || w.Exclusive() && l.options.ObserveOnly { // an observer in a queue only keeps the next one waiting
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
	var wait time.Duration
	for limit := l.contender.TTL / 4; pause(ctx, l.hints.quiet()); {
		watching, cancel := l.hints.begin(ctx)
		began := time.Now()
		err := w.Watch(watching, notify)
		stood, interrupted := l.hints.standing.Swap(false), watching.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return
		}
		if interrupted {
			continue
		}
		if stood && time.Since(began) > limit { // else it is the same streak
			wait = 0
		}
		if wait == 0 {
			l.log.Warn("no hints from the store: polling until they come back", "err", err)
		}
		wait = min(limit, max(100*time.Millisecond, 2*wait))
		pause(ctx, wait-l.jitter(wait/2))
	}
}

// leaveQueue ends watching until t: whoever does not contend must not be the one whom an exclusive hint wakes.
func (h *hints) leaveQueue(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.exclusive {
		h.quietUntil = t
		if h.interrupt != nil {
			h.interrupt()
		}
	}
}

// quiet returns for how long not to watch.
func (h *hints) quiet() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Until(h.quietUntil)
}

func (h *hints) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.interrupt = cancel
	if time.Now().Before(h.quietUntil) { // since quiet was asked
		cancel()
	}
	return ctx, cancel
}

// pause returns after d, or false as soon as ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
