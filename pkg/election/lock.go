package election

import (
	"context"
	"errors"
)

// ErrLost is the cause (context.Cause) of a Held whose term is over before Unlock.
var ErrLost = errors.New("leadership lost")

// Held is a mutex that Lock has taken: a context that ends with the term. Its Err asks the clocks at
// every call, so that it is right even before Done's channel is closed, as after a freeze.
type Held struct {
	context.Context // ends when the term is over or Lock's context is

	elector *Elector
	token   uint64
	end     context.CancelCauseFunc // ends the context
	stop    context.CancelFunc      // ends the Elector's Run
	ran     <-chan error            // Run's result
}

// Lock contends for c's mutex on b and returns when it leads; or with ctx's error if ctx ends first, or
// an error about c or o. One Lock is one term: when that is lost, it does not contend again. The
// caller must call Unlock, after it has stopped acting on the mutex, also when the term was lost.
//
// Lock is the counterpart of the JVM library's SimbaLocker.
func Lock(ctx context.Context, b Backend, c Contender, o *Options) (*Held, error) {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	held, end := context.WithCancelCause(ctx)
	p := &lockPublisher{won: make(chan State, 1), over: func() { end(ErrLost); stop() }}
	e, err := New(b, c, p, o)
	if err != nil {
		stop()
		end(nil)
		return nil, err
	}
	ran := make(chan error, 1)
	go func() { ran <- e.Run(run) }()
	select {
	case s := <-p.won:
		return &Held{Context: held, elector: e, token: s.Token, end: end, stop: stop, ran: ran}, nil
	case err = <-ran: // FailFast
	case <-ctx.Done():
		stop()
		err = errors.Join(ctx.Err(), <-ran)
	}
	stop()
	end(nil)
	return nil, err
}

// Err returns nil while this contender leads.
func (h *Held) Err() error {
	if err := h.Context.Err(); err != nil {
		return err
	}
	if !h.elector.State().Leading() {
		return context.Canceled
	}
	return nil
}

// State returns the elector's present state.
func (h *Held) State() State { return h.elector.State() }

// Token returns the fencing token of the term.
func (h *Held) Token() uint64 { return h.token }

// Unlock releases the mutex and returns when that is done, or an error that wraps ErrNotReleased. It is
// called once, and ends the context.
func (h *Held) Unlock() error {
	h.end(nil)
	h.stop()
	return <-h.ran
}

// lockPublisher turns the states of an Elector into one win and one end.
type lockPublisher struct {
	won  chan State
	led  bool
	over func() // called by the loop itself, which therefore never takes another term
}

func (p *lockPublisher) Publish(s State) {
	switch {
	case s.Status == Leader && !p.led:
		p.led = true
		p.won <- s
	case s.Status != Leader && p.led:
		p.over()
	}
}

func (p *lockPublisher) Settle(context.Context) error { return nil }
