package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// Sink is one place that follows the election.
type Sink interface {
	// Name is the sink's name in logs, errors and metrics.
	Name() string
	// Renewals reports whether Apply is to be called for mere renewals of a lease too. It is asked once.
	Renewals() bool
	// Apply makes the place agree with s; an error means that it may not, and Apply is called again. It
	// must be able to follow any state, applied or not. Calls are never concurrent. Time passes between
	// the call and its effect, so an effect that says "leading" asks s.Leading once more just before.
	// ctx ends when it is too late for s.
	Apply(ctx context.Context, s election.State) error
}

// Options are the optional parts of a Group. The zero value, and a nil pointer, are usable.
type Options struct {
	// Logger gets one line at Warn when a sink begins to fail and one at Info when it agrees again. nil
	// discards.
	Logger *slog.Logger
	// Notify is called with every State before any sink sees it, in order, from inside Publish. It must
	// not block.
	Notify func(election.State)
}

// Group is an election.Publisher that keeps its sinks in agreement with the State published last.
type Group struct {
	log     *slog.Logger
	notify  func(election.State)
	workers []*worker

	mu      sync.Mutex
	latest  election.State
	changes uint64        // of latest, without renewals; 0: nothing was published yet
	states  uint64        // published, with renewals
	news    chan struct{} // closed and replaced whenever anything here changes
}

var _ election.Publisher = (*Group)(nil)

// NewGroup returns a Group of sinks, in the order of their effects. Nothing is applied before Run.
func NewGroup(o *Options, sinks ...Sink) *Group {
	if o == nil {
		o = &Options{}
	}
	g := &Group{log: o.Logger, notify: o.Notify, news: make(chan struct{})}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	for i, s := range sinks {
		g.workers = append(g.workers, &worker{sink: s, renewals: s.Renewals(), before: g.workers[:i:i]})
	}
	return g
}

// Run applies states until ctx ends, and returns when no sink is at work any more. It may be called once.
func (g *Group) Run(ctx context.Context) error {
	var working sync.WaitGroup
	for _, w := range g.workers {
		working.Go(func() { g.work(ctx, w) })
	}
	working.Wait()
	return nil
}

// Publish makes s the State that all sinks are to agree with. It never blocks.
func (g *Group) Publish(s election.State) {
	if g.notify != nil {
		g.notify(s)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.replace(s)
}

// Settle returns nil as soon as all sinks agree with the State published last. When ctx ends first it
// returns ctx's error joined with one for each sink that does not agree, with the sink's last error.
func (g *Group) Settle(ctx context.Context) error {
	for {
		news, pending := g.pending()
		if len(pending) == 0 {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return errors.Join(append([]error{ctx.Err()}, pending...)...)
		}
	}
}

// Each calls yield for every sink, in order, with its name, whether it agrees with the State published
// last, and how often its Apply has failed.
func (g *Group) Each(yield func(sink string, inSync bool, failures uint64)) {
	type row struct {
		name     string
		inSync   bool
		failures uint64
	}
	g.mu.Lock()
	g.refresh()
	rows := make([]row, 0, len(g.workers))
	for _, w := range g.workers {
		rows = append(rows, row{w.sink.Name(), g.inSync(w), w.failures})
	}
	g.mu.Unlock()
	for _, r := range rows {
		yield(r.name, r.inSync, r.failures)
	}
}

func (g *Group) pending() (news <-chan struct{}, errs []error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refresh()
	for _, w := range g.workers {
		switch {
		case g.inSync(w):
		case w.err != nil:
			errs = append(errs, fmt.Errorf("sink %s: %w", w.sink.Name(), w.err))
		default:
			errs = append(errs, fmt.Errorf("sink %s: not done yet", w.sink.Name()))
		}
	}
	return g.news, errs
}

func (g *Group) inSync(w *worker) bool {
	return w.change == g.changes && (!w.renewals || w.state == g.states)
}

// refresh publishes the end of a leadership that has run out, in case that is noticed here first.
func (g *Group) refresh() {
	if now := g.latest.Current(); now.Status != g.latest.Status {
		g.replace(now)
	}
}

// replace makes s the latest State and stops what has become wrong with it. g.mu is held.
func (g *Group) replace(s election.State) {
	old := g.latest
	g.latest = s
	g.states++
	if g.changes == 0 || changed(old, s) {
		g.changes++
	}
	for _, w := range g.workers {
		w.overtaken(s)
	}
	g.announce()
}

// changed reports whether b is more than a renewal of a.
func changed(a, b election.State) bool {
	return a.Revision != b.Revision || a.Status != b.Status || a.Token != b.Token || a.Resuming != b.Resuming
}

func (g *Group) announce() {
	close(g.news)
	g.news = make(chan struct{})
}

// begin decides what w does next. With a nil call there is nothing to do before news come or wait has
// passed.
func (g *Group) begin(ctx context.Context, w *worker) (next *call, news <-chan struct{}, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refresh()
	wait = forever
	if pause := w.pause(g.latest, g.changes); pause > 0 {
		wait = pause
	} else if g.changes > 0 && !g.inSync(w) {
		return w.begin(ctx, g.latest, g.changes, g.states), nil, 0
	}
	if g.latest.Status == election.Leader {
		wait = min(wait, g.latest.Remaining()) // then it has run out
	}
	return nil, g.news, wait
}

func (g *Group) work(ctx context.Context, w *worker) {
	for ctx.Err() == nil {
		call, news, wait := g.begin(ctx, w)
		if call == nil {
			rest(ctx, news, wait)
			continue
		}
		err := w.sink.Apply(call.ctx, call.state)
		g.end(ctx, w, call, err)
	}
}

func (g *Group) end(ctx context.Context, w *worker, c *call, err error) {
	g.mu.Lock()
	failed, recovered := w.end(c, err, ctx.Err() != nil)
	g.announce()
	g.mu.Unlock()
	switch {
	case failed:
		g.log.LogAttrs(ctx, slog.LevelWarn, "sink disagrees, trying again",
			slog.String("mutex", c.state.Mutex), slog.String("sink", w.sink.Name()), slog.Any("err", err))
	case recovered:
		g.log.LogAttrs(ctx, slog.LevelInfo, "sink agrees again",
			slog.String("mutex", c.state.Mutex), slog.String("sink", w.sink.Name()))
	}
}

// forever is a wait that only news end.
const forever time.Duration = math.MaxInt64

// rest returns when there are news, when d has passed, or when ctx ends.
func rest(ctx context.Context, news <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-news:
	case <-t.C:
	}
}
