package election

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of the lock table that JVM peers share with us (Simba 3.0.2 and later), in characters.
const (
	MaxMutexLength    = 66
	MaxIdentityLength = 128
)

// MaxLease bounds TTL + Transition. Nobody waits a day for a dead leader, and stores and clocks have
// limits of their own far above it.
const MaxLease = 24 * time.Hour

// Contender is one participant in the election of one mutex.
type Contender struct {
	// Mutex names the lock. At most MaxMutexLength characters, not blank.
	Mutex string
	// Identity names this participant and must be unique per process: two contenders with
	// equal identities would adopt each other's terms. At most MaxIdentityLength characters,
	// not blank, without "@@" (a separator in messages between Redis contenders).
	Identity string
	// TTL is how long a holder may act after the start of its last good call. At least one second.
	TTL time.Duration
	// Transition is how much longer than TTL everybody else waits: the margin for the drift
	// between two clocks' rates, pauses and slow sinks. At least 500 ms and a tenth of TTL.
	Transition time.Duration
}

// Lease returns TTL + Transition: how long a full grant keeps everybody else away.
func (c Contender) Lease() time.Duration { return c.TTL + c.Transition }

// Validate reports all that is wrong with c at once, or nil.
func (c Contender) Validate() error {
	var errs []error
	name := func(what, value string, limit int) {
		switch n := utf8.RuneCountInString(value); {
		case strings.TrimSpace(value) == "":
			errs = append(errs, fmt.Errorf("%s must not be blank", what))
		case !utf8.ValidString(value):
			errs = append(errs, fmt.Errorf("%s %q is not valid UTF-8", what, value))
		case strings.ContainsRune(value, 0):
			errs = append(errs, fmt.Errorf("%s %q must not contain a NUL character", what, value))
		case n > limit:
			errs = append(errs, fmt.Errorf("%s has %d characters, the limit is %d: shorten it", what, n, limit))
		}
	}
	name("mutex", c.Mutex, MaxMutexLength)
	name("identity", c.Identity, MaxIdentityLength)
	if strings.Contains(c.Identity, "@@") {
		errs = append(errs, fmt.Errorf(`identity %q must not contain "@@"`, c.Identity))
	}
	if c.TTL < time.Second {
		errs = append(errs, fmt.Errorf("ttl %v is too short: use 1s or more", c.TTL))
	}
	if least := max(500*time.Millisecond, c.TTL/10); c.Transition < least {
		errs = append(errs, fmt.Errorf("transition %v is too short for ttl %v: use %v or more", c.Transition, c.TTL, least))
	}
	if c.TTL > MaxLease || c.Transition > MaxLease || c.Lease() > MaxLease {
		errs = append(errs, fmt.Errorf("ttl %v and transition %v make a lease of more than %v: shorten them", c.TTL, c.Transition, MaxLease))
	}
	return errors.Join(errs...)
}

// Lease is what one backend call learned. Losing is not an error: it is a Lease with another holder.
type Lease struct {
	// Holder is whoever has an unexpired lease; "" when the mutex is free or the last lease has run
	// out. It is our own identity only for a granted, unexpired lease.
	Holder string
	// Token is the fencing token of the holder's term; 0 when it is not known, as for a foreign
	// holder that keeps no tokens.
	Token uint64
	// Remaining is how long, counted from the start of the call, nobody else can take the mutex.
	// A grant's is the contender's full lease, never computed from a read; a foreign holder's may be
	// longer than that by what the call took. 0 means not known.
	Remaining time.Duration
	// Lapsed says that Holder is "" though nobody gave the mutex up: by the store's clock the last lease
	// ran out, or its record is gone. Clocks may step and records get lost, so a contender that has
	// learned of a longer lease waits for that on its own clock. Stores that cannot tell leave it false.
	Lapsed bool
}

// Backend speaks one store's protocol for one mutex and one contender. It holds no policy and no
// timers; the Elector decides when to call what.
//
// Calls are never concurrent (except Close, which may end a call in flight) and are bounded by ctx.
// An error means "unknown": the call may have taken effect, and may still do so later. After one, the
// next call uses a new connection.
type Backend interface {
	// Acquire takes the mutex if it is free or its lease has run out, adopts the lease if it is ours
	// and unexpired (same token), and else reports the holder. A new term's token is one more than
	// the largest of the store's and all that this Backend has seen.
	Acquire(ctx context.Context) (Lease, error)
	// Renew extends the unexpired term with that token. It never raises the token, never revives an
	// expired term, and never moves an expiry back, even when a given-up renewal executes late. If the
	// term is over it reports the holder as Observe does.
	Renew(ctx context.Context, token uint64) (Lease, error)
	// Release ends the term with that token and no other; token 0 ends whatever term this identity
	// has. It does nothing if the term is over. The mutex's token survives it.
	Release(ctx context.Context, token uint64) error
	// Observe reads the mutex and writes nothing.
	Observe(ctx context.Context) (Lease, error)
	// Close ends a call in flight and frees connections and goroutines. It is idempotent, releases no
	// term, and calls after it fail.
	Close() error
}

// Watcher is a Backend that can say when the mutex may have changed hands. Hints make a hand-over
// fast; polling at a lease's end is correct without them.
type Watcher interface {
	// Watch blocks. It calls notify once when the subscription stands, and from then on whenever the
	// mutex may have changed hands; spurious, merged and lost notifications are all allowed. It returns
	// ctx's error when ctx ends, and another error when the subscription breaks; the caller then calls
	// it again. It may run beside the Backend's other calls. notify never blocks.
	Watch(ctx context.Context, notify func()) error
	// Exclusive says that a hint normally wakes one contender, which then acts at once. Broadcast
	// hints are acted on after up to 10 ms at random.
	Exclusive() bool
}

// Publisher takes every State to the places outside the Elector that follow it.
type Publisher interface {
	// Publish takes every change and every renewal, in order. It never blocks.
	Publish(State)
	// Settle returns nil when all sinks agree with the State published last, or ctx's error, naming
	// the sinks that do not.
	Settle(ctx context.Context) error
}
