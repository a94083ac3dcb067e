package election_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/backends/backendtest"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// TestRandomFaults runs contenders over a store whose every call may go wrong, stops, restarts and
// steps them down at random, and checks at every millisecond that at most one leads, that sinks have
// settled before a graceful successor leads, and in the end that one correct lease explains every
// answer.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	seeds := 20
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { randomFaults(t, uint64(seed)) })
		})
	}
}

// minTerms is how many terms a run must see: one in which nothing happens proves nothing.
const minTerms = 10

func randomFaults(t *testing.T, seed uint64) {
	var (
		s       = newStore()
		history backendtest.History
		rnd     = locked{rnd: rand.New(rand.NewPCG(seed, 1))}
		ps      []*process
		n       int
		tokens  uint64
	)
	begin := func() *process {
		n++
		b := s.client(fmt.Sprintf("c%d", n))
		b.faults = rnd.fault
		b.cut = rnd.below(4) == 0
		p := startOn(t, history.Record(b, b.c), b, &election.Options{StopTimeout: 2 * time.Second},
			func(e *election.Elector) { election.SetJitter(e, rnd.duration) })
		p.slow(rnd.duration(500 * time.Millisecond))
		return p
	}
	for range 3 {
		ps = append(ps, begin())
	}
	for round := 0; round < 400 || history.Terms() < minTerms && round < 4000; round++ {
		switch i := rnd.below(len(ps)); rnd.below(40) {
		case 0: // replaced gracefully, its sinks settling before the mutex is free
			ps[i].cancel()
			ps[i] = begin()
		case 1:
			go func() { _ = ps[i].StepDown(t.Context(), rnd.duration(20*time.Second)) }()
		case 2:
			s.set(func() { s.down = true })
		case 3, 4, 5:
			s.set(func() { s.down = false })
		}
		for until := time.Now().Add(rnd.duration(2 * time.Second)); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
			synctest.Wait()
			oneLeads(t, ps...)
			for _, p := range ps {
				if st := p.State(); st.Leading() {
					if st.Token < tokens {
						t.Fatalf("token %d leads after %d", st.Token, tokens)
					}
					tokens = st.Token
				}
				select {
				case err := <-p.ran:
					if p.running() {
						t.Fatalf("the loop exited: %v", err)
					}
				default:
				}
			}
		}
	}
	s.set(func() { s.down = false })
	rnd.calm()
	await(t, 2*time.Minute, "one leads once the faults end", func() bool {
		for _, p := range ps {
			if p.leads() {
				return true
			}
		}
		return false
	}, ps...)
	for _, p := range ps {
		p.cancel()
		for range p.ran {
		}
	}
	if got := history.Terms(); got < minTerms {
		t.Errorf("only %d terms", got)
	}
	history.Check(t)
}

// locked is a source of randomness, and of faults, for goroutines that the scheduler of the bubble orders.
type locked struct {
	mu    sync.Mutex
	rnd   *rand.Rand
	quiet bool
}

func (l *locked) below(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rnd.IntN(n)
}

func (l *locked) duration(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(l.below(int(limit)))
}

func (l *locked) calm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet = true
}

func (l *locked) fault(string) fault {
	l.mu.Lock()
	quiet := l.quiet
	l.mu.Unlock()
	if quiet {
		return fault{}
	}
	switch l.below(13) {
	case 0:
		return fault{before: errDown}
	case 1:
		return fault{after: errors.New("connection reset")}
	case 2:
		return fault{late: l.duration(3 * ttl), deaf: true}
	case 3:
		return fault{delay: l.duration(3 * ttl), deaf: true}
	case 4:
		return fault{late: l.duration(ttl / 2)}
	case 5:
		return fault{ghost: l.duration(2 * ttl)}
	default:
		return fault{late: l.duration(50 * time.Millisecond)}
	}
}
