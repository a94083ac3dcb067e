package sinks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// How long a sink that failed is left alone: doubled from the first to the last, and varied so that the
// sinks of many pods do not return to a common service in step.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

var (
	errOvertaken = errors.New("the term is over")
	errCutOff    = errors.New("cut off, the next leader may begin")
)

// worker is what a Group knows of one sink. Group.mu guards what changes.
type worker struct {
	sink     Sink
	renewals bool
	before   []*worker

	change, state uint64 // the Group's counts that the sink agrees with
	tried         uint64 // the change that it has last tried, with or without success
	leads         bool   // "leading" was applied, perhaps in vain, and "not leading" not since
	term          uint64 // the token of that
	call          *call  // at work now

	err      error // of the last call
	again    time.Time
	streak   int // failures since the last success or change
	failures uint64
	warned   bool
}

// call is one call of Apply.
type call struct {
	ctx           context.Context
	cancel        context.CancelCauseFunc
	cutoff        *time.Timer // nil: none
	state         election.State
	change, count uint64
	partial       bool // only ends an earlier term
}

// pause returns for how long, unless there are news, w must not begin with change: for the sinks before
// it, or after a failure.
func (w *worker) pause(latest election.State, change uint64) time.Duration {
	var d time.Duration
	if w.err != nil && w.tried == change {
		d = time.Until(w.again)
	}
	for _, b := range w.before {
		if b.tried < change {
			d = max(d, held(latest))
		}
	}
	return d
}

// held returns for how long a sink that does not come back holds up those behind it. While leading that
// is for ever: they only begin late. When the term is over they must act before the next leader does.
func held(latest election.State) time.Duration {
	if cutoff := latest.Cutoff(); latest.Status != election.Leader && !cutoff.IsZero() {
		return time.Until(cutoff)
	}
	return forever
}

// begin returns the call that brings the sink nearer to s.
func (w *worker) begin(ctx context.Context, s election.State, change, count uint64) *call {
	c := &call{state: s, change: change, count: count}
	switch leading := s.Status == election.Leader; {
	case leading && w.leads && w.term != s.Token:
		c.state, c.partial = between(s), true
	case leading:
		w.leads, w.term = true, s.Token
	}
	if w.tried != change {
		w.streak = 0
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	// A cut-off that has passed belongs to a term so long over that nothing can be in time for it.
	if d := time.Until(s.Cutoff()); d > 0 {
		c.cutoff = time.AfterFunc(d, func() { c.cancel(errCutOff) })
	}
	w.call = c
	return c
}

// between is what a sink applies that missed the end of the term before s.
func between(s election.State) election.State {
	s.Status, s.Reason = election.Unknown, ""
	s.Holder, s.Token, s.Since = "", 0, time.Time{}
	return s
}

// overtaken tells the call at work that s is the latest State.
func (w *worker) overtaken(s election.State) {
	c := w.call
	if c == nil {
		return
	}
	leading := s.Status == election.Leader
	switch {
	case c.leading() && (!leading || s.Token != c.state.Token):
		c.cancel(errOvertaken)
	case c.cutoff != nil && c.leading() == leading:
		// Renewals move it, while leading and while giving up. A new term does not: what is still at
		// work for the one before must not live on with it.
		c.cutoff.Reset(max(0, time.Until(s.Cutoff())))
	}
}

// end takes the result of c and says what is worth a line in the log; stopping says that err may come
// from the end of Run.
func (w *worker) end(c *call, err error, stopping bool) (failed, recovered bool) {
	cause := context.Cause(c.ctx)
	if c.cutoff != nil {
		c.cutoff.Stop()
	}
	c.cancel(nil)
	w.call = nil
	if err != nil || !c.partial {
		w.tried = c.change
	}
	switch {
	case err == nil:
		recovered = w.warned
		w.err, w.streak, w.warned = nil, 0, false
		if !c.leading() {
			w.leads = false
		}
		if !c.partial {
			w.change, w.state = c.change, c.count
		}
	case stopping || errors.Is(cause, errOvertaken) || c.leading() && !c.state.Leading():
		// No fault of the sink. A copy that ran out may have been renewed since: the next call gets that.
	default:
		if errors.Is(cause, errCutOff) {
			err = fmt.Errorf("%w: %w", errCutOff, err)
		}
		failed = !w.warned
		w.err, w.warned = err, true
		w.failures++
		w.streak++
		w.again = time.Now().Add(retry(w.streak))
	}
	return failed, recovered
}

func (c *call) leading() bool { return c.state.Status == election.Leader }

// retry returns the wait after the n-th failure in a row, n ≥ 1.
func retry(n int) time.Duration {
	d := lastRetry
	if n < 10 {
		d = min(d, firstRetry<<(n-1))
	}
	return d/2 + rand.N(d/2) //nolint:gosec // spreads load, protects nothing
}
