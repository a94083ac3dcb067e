package backendtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// linearizability lets contenders that know no rules make random calls over a network that breaks, and
// then asks whether one correct lease could have given all the answers.
func (s *suite) linearizability() []test {
	var tests []test
	for i := range 3 {
		tests = append(tests, test{fmt.Sprintf("Run%d", i+1), s.randomCalls})
	}
	return tests
}

const (
	// leastTerms is how many terms a run must have seen to show anything.
	leastTerms, shortLeastTerms = 20, 5
	// leastCalls is how many calls each contender makes, or more if terms are rare.
	leastCalls, shortLeastCalls = 250, 60
)

func (s *suite) randomCalls(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	calls, terms := leastCalls, leastTerms
	if testing.Short() {
		calls, terms = shortLeastCalls, shortLeastTerms
	}
	_, most := s.grant(hasty("m", "i"))
	h := &History{Late: s.Late + most - hasty("m", "i").Lease()}
	mutex := newMutex()
	tokens := &tokens{}
	// The first two are one and the same to the store: a process, and a stale copy of it.
	identities := []string{"web-0_a", "web-0_a", "web-1_b", "web-2_c"}
	if s.Sessions {
		identities = identities[1:]
	}
	deadline := time.Now().Add(limit(t))
	var running sync.WaitGroup
	for i, identity := range identities {
		w := &walker{
			suite: s, history: h, tokens: tokens, contender: hasty(mutex, identity),
			random: rand.New(rand.NewPCG(seed, uint64(i))),
		}
		if s.Addr != "" {
			w.proxy = s.proxy(t)
		}
		running.Go(func() {
			w.walk(t, func(n int) bool { return n < calls || h.Terms() < terms && time.Now().Before(deadline) })
		})
	}
	running.Wait()
	h.Check(t)
	if got := h.Terms(); got < terms {
		t.Errorf("%d terms in the whole run: too few to show anything", got)
	}
}

// tokens are all that any contender of a run was told.
type tokens struct {
	mu  sync.Mutex
	all []uint64
}

func (k *tokens) add(token uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if token != 0 {
		k.all = append(k.all, token)
	}
}

// pick returns the newest token mostly, else an older one, which may be anybody's.
func (k *tokens) pick(random *rand.Rand) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch n := len(k.all); {
	case n == 0:
		return 1 + random.Uint64N(9)
	case random.IntN(4) > 0:
		return k.all[n-1]
	default:
		return k.all[random.IntN(n)]
	}
}

// walker is one contender that makes random calls.
type walker struct {
	suite     *suite
	history   *History
	tokens    *tokens
	contender election.Contender
	random    *rand.Rand
	proxy     *faultproxy.Proxy // nil without a network
}

func (w *walker) walk(t *testing.T, more func(calls int) bool) {
	var b election.Backend
	for calls := 0; more(calls); calls++ {
		if b == nil {
			if b = w.open(t); b == nil {
				return
			}
		}
		w.disturb()
		w.call(t.Context(), b)
		if w.random.IntN(25) == 0 { // as if the process had been restarted
			_ = b.Close()
			b = nil
		}
		rest := w.upTo(40 * time.Millisecond)
		if w.random.IntN(50) == 0 {
			rest = w.upTo(3 * time.Second)
		}
		time.Sleep(rest) // spreads the calls over many leases, and lets some run out
	}
	if b != nil {
		_ = b.Close()
	}
}

func (w *walker) open(t *testing.T) election.Backend {
	addr := w.suite.Addr
	if w.proxy != nil {
		addr = w.proxy.Addr()
	}
	b, err := w.suite.Open(addr, w.contender)
	if err != nil {
		t.Errorf("open: %v", err)
		return nil
	}
	return w.history.Record(b, w.contender)
}

func (w *walker) upTo(d time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(d)))
}

// disturb changes what the network does, now and then. Mostly it works.
func (w *walker) disturb() {
	if w.proxy == nil || w.random.IntN(6) > 0 {
		return
	}
	switch w.random.IntN(10) {
	case 0:
		w.proxy.Refuse()
	case 1:
		w.proxy.Blackhole()
	case 2:
		w.proxy.Cut(w.random.IntN(512))
	case 3, 4:
		w.proxy.Delay(w.upTo(60 * time.Millisecond))
	default:
		w.proxy.Pass()
	}
}

func (w *walker) call(ctx context.Context, b election.Backend) {
	timeout := 50*time.Millisecond + w.upTo(250*time.Millisecond)
	if w.random.IntN(12) == 0 {
		timeout = w.upTo(2 * time.Millisecond) // gives up in the middle
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var lease election.Lease
	switch n := w.random.IntN(100); {
	case n < 40:
		lease, _ = b.Acquire(ctx)
	case n < 65:
		lease, _ = b.Renew(ctx, w.tokens.pick(w.random))
	case n < 80:
		_ = b.Release(ctx, w.tokens.pick(w.random))
	case n < 82:
		_ = b.Release(ctx, 0)
	default:
		lease, _ = b.Observe(ctx)
	}
	w.tokens.add(lease.Token)
}
