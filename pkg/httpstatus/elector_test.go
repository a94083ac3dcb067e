package httpstatus_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

var contender = election.Contender{
	Mutex: "orders", Identity: "web-0_k3f9q2ab", TTL: 10 * time.Second, Transition: 6 * time.Second,
}

// store is an election.Backend for one contender that does what the test says.
type store struct {
	mu       sync.Mutex
	holder   string
	token    uint64
	down     error
	released int
	stuck    bool // Release does not come back before its time-out
}

func (s *store) set(change func(s *store)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *store) Acquire(ctx context.Context) (election.Lease, error) {
	s.set(func(s *store) {
		if s.holder == "" && s.down == nil {
			s.holder = contender.Identity
			s.token++
		}
	})
	return s.Observe(ctx)
}

func (s *store) Renew(ctx context.Context, _ uint64) (election.Lease, error) { return s.Observe(ctx) }

func (s *store) Release(ctx context.Context, _ uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck {
		return errors.New("connection refused")
	}
	if s.holder == contender.Identity {
		s.holder = ""
	}
	s.released++
	return s.down
}

func (s *store) Observe(context.Context) (election.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease := election.Lease{Holder: s.holder, Token: s.token}
	if s.holder != "" {
		lease.Remaining = contender.Lease()
	}
	return lease, s.down
}

func (s *store) Close() error { return nil }

// publish is a Publisher of one function.
type publish func(election.State)

func (p publish) Publish(s election.State)     { p(s) }
func (p publish) Settle(context.Context) error { return nil }

// run makes an Elector on s contend for as long as the test takes.
func run(t *testing.T, s *store, p election.Publisher, o *election.Options) *election.Elector {
	t.Helper()
	e, err := election.New(s, contender, p, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Run(ctx) // some tests leave the store down
	}()
	t.Cleanup(func() { cancel(); <-done })
	return e
}

// until polls for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// leading returns an Elector that leads.
func leading(t *testing.T, p election.Publisher) (*election.Elector, *store) {
	t.Helper()
	s := &store{token: 16}
	e := run(t, s, p, nil)
	until(t, "leading", func() bool { return e.State().Leading() })
	return e, s
}

// still is a Source that does not change by itself.
type still struct {
	state       election.State
	live, ready error
}

func (s still) State() election.State { return s.state.Current() }
func (s still) Live() error           { return s.live }
func (s still) Ready() error          { return s.ready }

func standby() still {
	return still{state: election.State{
		Mutex: "orders", Identity: contender.Identity, Status: election.Standby, Revision: 41,
		Holder: "web-1_00000000", Token: 6, Since: time.Date(2026, 2, 3, 4, 5, 6, 789e6, time.FixedZone("", 3600)),
	}}
}
