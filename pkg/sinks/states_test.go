package sinks_test

import (
	"context"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

var contender = election.Contender{
	Mutex: "orders", Identity: "web-0_k3f9q2ab", TTL: 10 * time.Second, Transition: 6 * time.Second,
}

// grants is a store that gives the mutex, with that token, to whoever asks first.
type grants struct {
	token uint64
	taken bool
}

func (g *grants) Acquire(context.Context) (election.Lease, error) {
	g.taken = true
	return g.Observe(context.Background())
}

func (g *grants) Renew(ctx context.Context, _ uint64) (election.Lease, error) { return g.Observe(ctx) }
func (g *grants) Release(context.Context, uint64) error                       { return nil }
func (g *grants) Close() error                                                { return nil }

func (g *grants) Observe(context.Context) (election.Lease, error) {
	if !g.taken {
		return election.Lease{}, nil
	}
	return election.Lease{Holder: contender.Identity, Token: g.token, Remaining: contender.Lease()}, nil
}

// leader returns a State that leads with token for about a TTL from now on. Only an Elector can make
// one.
func leader(t *testing.T, token uint64) election.State {
	t.Helper()
	return elected(t, contender, token)
}

func elected(t *testing.T, c election.Contender, token uint64) election.State {
	t.Helper()
	states := make(chan election.State, 64)
	e, err := election.New(&grants{token: token}, c, publisher(states), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	s := <-states
	for !s.Leading() {
		s = <-states
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return s
}

type publisher chan election.State

func (p publisher) Publish(s election.State)     { p <- s }
func (p publisher) Settle(context.Context) error { return nil }

// after returns a State that does not lead, as an elector would publish it after s: what follows the
// term of s keeps its cut-off.
func after(s election.State, status election.Status) election.State {
	s.Status, s.Holder, s.Token, s.Since = status, "", 0, time.Time{}
	s.Revision++
	return s
}

func standby() election.State {
	return election.State{
		Mutex: contender.Mutex, Identity: contender.Identity, Status: election.Standby, Revision: 41,
		Holder: "web-1_00000000", Token: 6, Since: time.Now().Round(0),
	}
}
