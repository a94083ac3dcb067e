package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// ErrNotReleased is what Run and StepDown wrap when the store did not confirm that the mutex was given
// back: others then wait for the lease to run out.
var ErrNotReleased = errors.New("mutex not released")

// Elector contends for one mutex through one Backend. Its methods may be called from any goroutine.
type Elector struct {
	backend   Backend
	contender Contender
	publisher Publisher
	options   Options
	log       *slog.Logger
	clock     *clock
	jitter    func(limit time.Duration) time.Duration

	state    atomic.Pointer[State]
	requests chan stepDown
	started  atomic.Bool
	done     chan struct{} // closed when Run has returned
	pulse    pulse
}

type stepDown struct {
	cooldown time.Duration
	done     chan error // buffered
}

// New returns an Elector for c on b that tells p (nil: nobody) of every state. It starts nothing and
// calls nothing; its error says what is wrong with c.
func New(b Backend, c Contender, p Publisher, o *Options) (*Elector, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	e := &Elector{
		backend:   b,
		contender: c,
		publisher: p,
		clock:     &clock{boot: boottime},
		jitter:    rand.N[time.Duration],
		requests:  make(chan stepDown),
		done:      make(chan struct{}),
	}
	if o != nil {
		e.options = *o
	}
	if e.options.StopTimeout == 0 {
		e.options.StopTimeout = 5 * time.Second
	}
	if e.publisher == nil {
		e.publisher = nobody{}
	}
	e.log = e.options.Logger
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.log = e.log.With("mutex", c.Mutex, "identity", c.Identity)
	e.state.Store(&State{
		Mutex:    c.Mutex,
		Identity: c.Identity,
		Status:   Unknown,
		Revision: rand.Uint64N(revisions),
		Resuming: e.options.ResumeToken != 0,
	})
	return e, nil
}

// Run contends until ctx ends; then it gives up in order (doc.go, 6) and returns nil, or an error that
// wraps ErrNotReleased. The store being down never ends it, except before Ready with FailFast.
// It may be called once, and does not close the Backend.
func (e *Elector) Run(ctx context.Context) error {
	if e.started.Swap(true) {
		return errors.New("run: an elector runs once; make another with New")
	}
	defer close(e.done)
	return newLoop(ctx, e).run(ctx)
}

// State returns the present state. It never blocks.
func (e *Elector) State() State { return e.state.Load().Current() }

// StepDown gives up leading, if we lead, and does not contend for cooldown (0: twice the lease). It
// returns when the mutex has been released, or ctx's error if that ends first (the Elector goes on
// stepping down), or an error that wraps ErrNotReleased.
func (e *Elector) StepDown(ctx context.Context, cooldown time.Duration) error {
	if !e.started.Load() {
		return errors.New("step down: the elector is not running")
	}
	if cooldown == 0 {
		cooldown = 2 * e.contender.Lease()
	}
	request := stepDown{cooldown, make(chan error, 1)}
	select {
	case e.requests <- request:
	case <-e.done:
		return nil // stopped: it gave up before
	case <-ctx.Done():
		return fmt.Errorf("step down: %w", ctx.Err())
	}
	select {
	case err := <-request.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("step down: %w", ctx.Err())
	}
}

// Live returns nil unless the Elector's own loop has stalled (for longer than TTL when leading, else
// twice that), or a backend call has outlived its time-out by TTL. A store that is down stalls nothing.
func (e *Elector) Live() error {
	limit := 2 * e.contender.TTL
	if e.State().Leading() {
		limit = e.contender.TTL
	}
	return e.pulse.live(time.Now(), limit, e.contender.TTL)
}

// Ready returns nil once the first answer of the store is in, else why it is not. Reading a free mutex is
// not enough: the account may be allowed to read and not to write.
func (e *Elector) Ready() error {
	return e.pulse.ready()
}

// callTimeout bounds every backend call: a quarter of the window that a grant gives, so that a dead
// connection costs one attempt and not the lease.
func (e *Elector) callTimeout() time.Duration { return e.contender.TTL / 4 }

type nobody struct{}

func (nobody) Publish(State)                {}
func (nobody) Settle(context.Context) error { return nil }
