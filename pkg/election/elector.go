package election

import (
	"context"
	"errors"
	"time"
)

// Elector contends for one mutex through one Backend.
type Elector struct{}

// New returns an Elector for c on b that tells p (nil: nobody) of every state. It starts nothing.
func New(b Backend, c Contender, p Publisher, o *Options) (*Elector, error) {
	return nil, errors.New("not yet")
}

// Run contends until ctx ends, then gives up in order. It may be called once.
func (e *Elector) Run(ctx context.Context) error { return nil }

// State returns the present state. It never blocks.
func (e *Elector) State() State { return State{} }

// StepDown gives up leading and candidacy for cooldown (0: twice the lease).
func (e *Elector) StepDown(ctx context.Context, cooldown time.Duration) error { return nil }

// Live returns nil unless the Elector's own loop has stalled.
func (e *Elector) Live() error { return nil }

// Ready returns nil once the first answer of the store is in, else why it is not.
func (e *Elector) Ready() error { return nil }
