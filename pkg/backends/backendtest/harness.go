package backendtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// Harness is how the suite reaches one store. Only Open is required; the zero value of any other field
// says that the store lacks something, and the tests of that are left out.
type Harness struct {
	// Open opens a Backend for c on the server at addr, which is Addr or that of a proxy in front of it.
	Open func(addr string, c election.Contender) (election.Backend, error)
	// Addr is the server's "host:port". "": the store is not behind a TCP connection (addr is then ""
	// too), and there are no network faults.
	Addr string
	// OpenWithoutHints is Open with the store's hints switched off by its own setting. nil: there is none.
	OpenWithoutHints func(addr string, c election.Contender) (election.Backend, error)

	// Now reads the clock that decides about leases in the store. nil: contenders decide by their own.
	Now func(ctx context.Context) (time.Time, error)
	// DeleteMutex removes all that the store keeps of a mutex, as an operator might by hand. nil: that
	// cannot be done, or is not survived.
	DeleteMutex func(t testing.TB, mutex string)
	// Restart returns a server that one test has for itself, and what stops it and starts it again on the
	// same address with its data. nil: it cannot be restarted.
	Restart func(t testing.TB) (own Harness, restart func(t testing.TB))
	// LoseData returns a server that one test has for itself, and what removes everything that it stores,
	// of which it remembers nothing. It goes on, or is back, after that. nil: that cannot be done, or is
	// not survived.
	LoseData func(t testing.TB) (own Harness, loseData func(t testing.TB))

	// Grant returns the bounds of a grant's Remaining on this store. nil: it is c's lease exactly.
	Grant func(c election.Contender) (least, most time.Duration)
	// Late is how much longer than the most of Grant a term may last that nobody renews.
	Late time.Duration
	// Lapses says that the store tells a lease that ran out from one that was released (Lease.Lapsed).
	Lapses bool
	// Sessions says that a term lives and dies with the Backend that took it. Another Backend of the same
	// identity, as after a restart, can then not continue it.
	Sessions bool

	// Refused are mutex names, out of those that the suite tries, which the store cannot hold. Opening or
	// acquiring them must fail with an error that quotes the name.
	Refused []string
	// Collisions are different names that the store would take for the same.
	Collisions []Collision
}

// Collision is a pair of mutexes which the store cannot tell apart. While the first is held, opening or
// acquiring the second must fail with an error that names the cause.
type Collision struct {
	Name          string
	First, Second string // the mutexes
	// Cause must appear in the error.
	Cause string
	// Open opens both, where it takes a special table or the like. nil: Harness.Open.
	Open func(addr string, c election.Contender) (election.Backend, error)
}

// Run runs the suite. All of its tests run at the same time, however few CPUs there are.
func Run(t *testing.T, h Harness) {
	t.Helper()
	s := &suite{h}
	groups := map[string][]test{
		"Basics":          s.basics(),
		"Terms":           s.terms(),
		"Expiry":          s.expiry(),
		"LateCalls":       s.lateCalls(),
		"Tokens":          s.tokens(),
		"Faults":          s.faults(),
		"Watch":           s.watch(),
		"Names":           s.names(),
		"Close":           s.closing(),
		"Electors":        s.electors(),
		"Linearizability": s.linearizability(),
	}
	var all []test
	for name, tests := range groups {
		all = append(all, test{name, func(t *testing.T) { together(t, tests) }})
	}
	together(t, all)
}

type suite struct{ Harness }

type test struct {
	name string
	run  func(t *testing.T)
}

// together runs tests at the same time. T.Parallel would run only as many as there are CPUs, although
// nearly all the time they wait.
func together(t *testing.T, tests []test) {
	t.Helper()
	var running sync.WaitGroup
	for _, test := range tests {
		running.Go(func() { t.Run(test.name, test.run) })
	}
	running.Wait()
}

// grant returns the bounds of what a grant promises to c.
func (s *suite) grant(c election.Contender) (least, most time.Duration) {
	if s.Grant == nil {
		return c.Lease(), c.Lease()
	}
	return s.Grant(c)
}

// networked reports whether there is a network that can fail.
func (s *suite) networked() bool { return s.Addr != "" }

// when returns tests if the store has what they are about. What it lacks is not tested, and not skipped
// either: nothing is missing.
func when(has bool, tests ...test) []test {
	if !has {
		return nil
	}
	return tests
}
