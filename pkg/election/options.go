package election

import (
	"log/slog"
	"time"
)

// Options are the optional parts of an Elector. The zero value, and a nil pointer, are usable.
type Options struct {
	// Logger gets one line per transition at Info, one per streak of unknown answers at Warn, and every
	// call at Debug. nil discards.
	Logger *slog.Logger
	// StopTimeout bounds how long sinks may take to settle when leadership is given up on purpose;
	// after it, the mutex is released whether or not they did. 0 means 5 seconds.
	StopTimeout time.Duration
	// ObserveOnly follows the mutex without ever contending for it.
	ObserveOnly bool
	// ResumeToken is the token of a term that this identity held when its process was killed, and that
	// no other process can have taken over (the caller has proof). It is renewed as the same term
	// before anything else is tried. 0: there is none.
	ResumeToken uint64
	// FailFast makes Run return the store's first refusal as an error instead of trying again.
	FailFast bool
	// Trace is told of calls and transitions, for metrics. Its functions must not block.
	Trace Trace
}

// Trace holds callbacks; nil ones are skipped.
type Trace struct {
	// Call is told of every finished backend call: "acquire", "renew", "release" or "observe", how long
	// it took, and its error (nil: the answer was known).
	Call func(call string, took time.Duration, err error)
	// Transition is told of every beginning and end of leading: Acquired, Resumed, Released, …
	Transition func(reason string)
}

// Reasons for a transition. The first two begin leading, the others end it.
const (
	Acquired = "acquired"
	Resumed  = "resumed"
	Released = "released"  // the process stops
	Expired  = "expired"   // no good answer before the deadline
	Lost     = "lost"      // the store says that the term is over
	StepDown = "step-down" // asked to, with a cool-down
)
