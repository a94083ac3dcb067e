package election_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// store is one mutex in memory, with the semantics that backends document.
type store struct {
	mu      sync.Mutex
	holder  string
	token   uint64
	expires time.Time
	down    bool          // every call is refused
	skew    time.Duration // how far the store's clock has been stepped forward
	writes  map[string]int
	reads   map[string]int
	subs    map[*client]func()
}

func newStore() *store {
	return &store{writes: map[string]int{}, reads: map[string]int{}, subs: map[*client]func(){}}
}

func (s *store) now() time.Time { return time.Now().Add(s.skew) }

func (s *store) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *store) counts() (writes, reads map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.writes), maps.Clone(s.reads)
}

func (s *store) owner() (string, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now().Before(s.expires) {
		return s.holder, s.token
	}
	return "", s.token
}

// fault is what happens to one call. The zero fault is none.
type fault struct {
	before, after error         // the call fails before, or after it took effect
	delay         time.Duration // the effect happens after it
	late          time.Duration // the answer comes so much after the effect
	deaf          bool          // the call ignores its context
	ghost         time.Duration // the call fails now, and takes effect so much later
}

// client is one contender's Backend on a store.
type client struct {
	*store
	c      election.Contender
	rtt    time.Duration // of every call
	faults func(call string) fault
	cut    bool // no hints
	queue  bool // hints are exclusive
}

var errDown = errors.New("connection refused")

func (s *store) client(identity string) *client {
	return &client{store: s, c: contender(identity), rtt: 2 * time.Millisecond}
}

func contender(identity string) election.Contender {
	return election.Contender{Mutex: "orders", Identity: identity, TTL: 10 * time.Second, Transition: 6 * time.Second}
}

// do runs one call with its faults.
func (b *client) do(ctx context.Context, call string, effect func() election.Lease) (election.Lease, error) {
	var f fault
	b.set(func() {
		if b.faults != nil {
			f = b.faults(call)
		}
	})
	if f.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if err := sleep(ctx, b.rtt/2+f.delay); err != nil {
		return election.Lease{}, err
	}
	if f.ghost > 0 {
		time.AfterFunc(f.ghost, func() { b.set(func() { effect() }) })
		return election.Lease{}, errDown
	}
	b.mu.Lock()
	down := b.down
	var lease election.Lease
	if !down && f.before == nil {
		lease = effect()
	}
	b.mu.Unlock()
	if err := sleep(ctx, b.rtt/2+f.late); err != nil {
		return election.Lease{}, err
	}
	if down {
		return election.Lease{}, errDown
	}
	return lease, errors.Join(f.before, f.after)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read is the mutex as Observe reports it.
func (b *client) read() election.Lease {
	if left := b.expires.Sub(b.now()); b.holder != "" && left > 0 {
		return election.Lease{Holder: b.holder, Token: b.token, Remaining: left}
	}
	return election.Lease{Token: b.token, Lapsed: b.holder != ""}
}

func (b *client) grant() election.Lease {
	return election.Lease{Holder: b.c.Identity, Token: b.token, Remaining: b.c.Lease()}
}

func (b *client) mine(token uint64) bool {
	return b.holder == b.c.Identity && (token == 0 || token == b.token) && b.now().Before(b.expires)
}

func (b *client) extend() {
	if e := b.now().Add(b.c.Lease()); e.After(b.expires) {
		b.expires = e
	}
}

func (b *client) Acquire(ctx context.Context) (election.Lease, error) {
	return b.do(ctx, "acquire", func() election.Lease {
		b.writes[b.c.Identity]++
		switch {
		case b.mine(0):
			b.extend()
		case b.now().Before(b.expires) && b.holder != "":
			return b.read()
		default:
			b.holder, b.token, b.expires = b.c.Identity, b.token+1, b.now().Add(b.c.Lease())
		}
		return b.grant()
	})
}

func (b *client) Renew(ctx context.Context, token uint64) (election.Lease, error) {
	return b.do(ctx, "renew", func() election.Lease {
		b.writes[b.c.Identity]++
		if !b.mine(token) {
			return b.read()
		}
		b.extend()
		return b.grant()
	})
}

func (b *client) Release(ctx context.Context, token uint64) error {
	_, err := b.do(ctx, "release", func() election.Lease {
		b.writes[b.c.Identity]++
		if b.mine(token) {
			b.holder, b.expires = "", time.Time{}
			for c, notify := range b.subs {
				if !c.cut {
					notify()
				}
			}
		}
		return election.Lease{}
	})
	return err
}

func (b *client) Observe(ctx context.Context) (election.Lease, error) {
	return b.do(ctx, "observe", func() election.Lease {
		b.reads[b.c.Identity]++
		return b.read()
	})
}

func (b *client) Watch(ctx context.Context, notify func()) error {
	b.set(func() { b.subs[b] = notify })
	defer b.set(func() { delete(b.subs, b) })
	notify()
	<-ctx.Done()
	return ctx.Err()
}

func (b *client) Exclusive() bool { return b.queue }
func (b *client) Close() error    { return nil }

// sinks is a Publisher whose one sink, which renewals do not concern, applies each state after lag.
type sinks struct {
	mu      sync.Mutex
	lag     time.Duration
	states  []election.State // as published
	applied election.State
	busy    chan struct{} // closed when the last published state is applied
}

func (p *sinks) Publish(s election.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	renewal := len(p.states) > 0 && p.states[len(p.states)-1].Revision == s.Revision
	p.states = append(p.states, s)
	if renewal && p.busy != nil {
		return
	}
	busy := make(chan struct{})
	p.busy = busy
	time.AfterFunc(p.lag, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.busy == busy {
			p.applied = s
			close(busy)
		}
	})
}

func (p *sinks) Settle(ctx context.Context) error {
	p.mu.Lock()
	busy := p.busy
	p.mu.Unlock()
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// following reports whether the sink shows leadership.
func (p *sinks) following() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applied.Status == election.Leader
}

// terms returns the tokens of all terms that were published, in order.
func (p *sinks) terms() (tokens []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range p.states {
		if s.Status == election.Leader && (i == 0 || p.states[i-1].Status != election.Leader) {
			tokens = append(tokens, s.Token)
		}
	}
	return tokens
}

// slow makes the sink apply what is published from now on after lag.
func (p *sinks) slow(lag time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lag = lag
}

func (p *sinks) published() []election.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.states)
}

func (p *sinks) last() election.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.states[len(p.states)-1]
}
