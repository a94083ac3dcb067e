package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
	"github.com/simba-sidecar/simba-sidecar/pkg/sinks"
)

// moody is a sink that is slow, deaf or broken at random, and checks what it is told.
type moody struct {
	t        *testing.T
	name     string
	renewals bool
	random   *rand.Rand
	healthy  atomic.Bool
	busy     atomic.Bool

	last  election.State // applied with success
	term  uint64         // of what it was last told to lead in and has not left with success; 0: none
	terms int
}

func (m *moody) Name() string   { return m.name }
func (m *moody) Renewals() bool { return m.renewals }

func (m *moody) Apply(ctx context.Context, s election.State) error {
	if m.busy.Swap(true) {
		m.t.Errorf("%s: two calls at once", m.name)
	}
	defer m.busy.Store(false)
	leads := s.Status == election.Leader
	switch {
	case leads && !s.Leading():
		m.t.Errorf("%s: told to lead term %d after its deadline", m.name, s.Token)
	case leads && m.term != 0 && m.term != s.Token:
		m.t.Errorf("%s: told to lead term %d before it has left term %d", m.name, s.Token, m.term)
	case leads && m.term == 0:
		m.term, m.terms = s.Token, m.terms+1
	}
	if !m.healthy.Load() {
		d := time.Duration(m.random.Int64N(int64(4 * time.Second)))
		switch m.random.IntN(4) {
		case 0:
			time.Sleep(d) // deaf
		case 1:
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return ctx.Err()
			}
		case 2:
			return errors.New("refused")
		}
	}
	if !leads {
		m.term = 0
	}
	m.last = s
	return nil
}

func TestSinksFollowThroughRandomFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { follow(t, seed) })
		})
	}
}

func follow(t *testing.T, seed uint64) {
	all := make([]*moody, 3)
	list := make([]sinks.Sink, len(all))
	for i := range all {
		all[i] = &moody{t: t, name: fmt.Sprint("sink", i), renewals: i == 0, random: rand.New(rand.NewPCG(seed, uint64(i)))}
		list[i] = all[i]
	}
	g := start(t, nil, list...)
	random := rand.New(rand.NewPCG(seed, 100))
	s, token := standby(), uint64(0)
	for range 60 {
		switch random.IntN(3) {
		case 0:
			token++
			revision := s.Revision
			s = leader(t, token)
			s.Revision = revision + 1
		case 1:
			if s.Leading() {
				s = after(s, election.SteppingDown)
			}
		case 2: // a renewal, or nothing new
			if s.Leading() {
				revision := s.Revision
				s = leader(t, token)
				s.Revision = revision
			}
		}
		g.Publish(s)
		time.Sleep(time.Duration(random.Int64N(int64(6 * time.Second))))
		if now := s.Current(); now.Status != s.Status {
			s = now
		}
	}
	s = leader(t, token+1)
	g.Publish(s)
	for _, m := range all {
		m.healthy.Store(true)
	}
	if err := g.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	for _, m := range all {
		if now := s.Current(); m.last.Status != now.Status || m.last.Token != now.Token {
			t.Errorf("%s has settled on %s %d, want %s %d", m.name, m.last.Status, m.last.Token, now.Status, now.Token)
		}
		if m.terms < 3 {
			t.Errorf("%s has seen %d terms: too few to mean anything", m.name, m.terms)
		}
	}
}
