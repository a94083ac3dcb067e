package election

import "time"

// Status is the one word for where a contender stands.
type Status string

// The statuses. Their texts appear in HTTP answers and files.
const (
	Unknown      Status = "unknown"       // the holder is not known: no answer yet, or none for too long
	Standby      Status = "standby"       // somebody else holds the mutex, or it is free and we do not hold it
	Leader       Status = "leader"        // we hold it and may act
	SteppingDown Status = "stepping-down" // we are giving it up: no longer leading, sinks settling
	Observer     Status = "observer"      // we only follow
)

// State is what one contender knows at one moment. It is a value that carries its own expiry: a copy
// that says "leading" turns false by itself, whoever holds it and however long the process was stopped.
// The zero State leads nothing.
type State struct {
	Mutex, Identity string
	Status          Status
	// Reason says why, where the status alone does not: "cooldown", "store: …".
	Reason string
	// Holder, Token and Since describe the holder as last observed: its identity, its fencing token and
	// when this process first saw its term (wall time, for display). Zero values: not known.
	Holder string
	Token  uint64
	Since  time.Time
	// Revision changes with status, leadership, holder and token, but not with renewals. It starts at
	// random in each process and stays below 2^53.
	Revision uint64
	// Resuming is set while a restarted process still tries to renew the term of its predecessor. Sinks
	// leave what the predecessor published until it ends.
	Resuming bool

	clock  *clock  // nil unless leading
	until  instant // leading ends here
	cutoff instant // what follows our last term must have stopped here; zero without one
}

// Leading reports whether this contender may act as the leader at this very moment. It asks the clocks
// at every call.
func (s State) Leading() bool {
	return s.Status == Leader && s.clock != nil && s.until.until(s.clock.now()) > 0
}

// Current returns s as it is at this moment: a State whose leadership has run out is turned into what
// the Elector is about to publish.
func (s State) Current() State {
	if s.Status != Leader || s.Leading() {
		return s
	}
	return s.expired()
}

// expired is the one place that says what becomes of a leader at its deadline.
func (s State) expired() State {
	s.Status, s.Reason = Unknown, "store: no good answer before the lease's deadline"
	s.Holder, s.Token, s.Since = "", 0, time.Time{}
	s.Revision = nextRevision(s.Revision)
	s.clock = nil
	return s
}

// Remaining returns how long this contender still leads if nothing renews its lease; 0 if it does not lead.
func (s State) Remaining() time.Duration {
	if s.clock == nil {
		return 0
	}
	return max(0, s.until.until(s.clock.now()))
}

// ExpiresAt returns the wall time at which leadership ends if nothing renews it, for display only: a
// step of the wall clock moves it, and decides nothing. It is zero when not leading.
func (s State) ExpiresAt() time.Time {
	if d := s.Remaining(); d > 0 {
		return time.Now().Add(d).Round(0)
	}
	return time.Time{}
}

// Cutoff returns the moment by which everything that follows our last term must have stopped: the
// deadline plus half the transition. It is zero if this process has not led.
func (s State) Cutoff() time.Time { return s.cutoff.mono }

// Name returns the readable part of the holder's identity: what stands before its last "_", else all.
func (s State) Name() string {
	for i := len(s.Holder) - 1; i >= 0; i-- {
		if s.Holder[i] == '_' {
			return s.Holder[:i]
		}
	}
	return s.Holder
}

const revisions = 1 << 53 // the integers that a JSON number carries exactly

func nextRevision(r uint64) uint64 { return (r + 1) % revisions }
