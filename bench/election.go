package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// contender takes part in an election.
type contender interface {
	// ready returns once it has seen who leads and would notice the end of that.
	ready(ctx context.Context) error
	// resign ends it in order, crash without a word. Both return when that is over.
	resign(ctx context.Context) (ending, error)
	crash(ctx context.Context) (ending, error)
	// close ends it in whatever way, and may be called after that.
	close()
}

// ending is how a leader's term came to its end.
type ending struct {
	asked time.Time // when it was told to resign, or killed
	// free is from when on another may lead: the start of the call that released the mutex, or the end
	// of the lease of a leader that crashed, counted from the start of its last good call.
	free time.Time
}

// kind is a way to elect a leader.
type kind struct {
	start func(ctx context.Context, mutex, name string, lead func(time.Time)) (contender, error)
	// A leader is left alone for settle, so that all follow its term, and then for a random time of up to
	// spread, so that its end falls on any moment of the others' and its own rhythm.
	settle, spread time.Duration
}

// series are many changes of leader: from when the old one was asked, and from when the mutex was free,
// until the new one led.
type series struct{ fromAsked, fromFree samples }

// contenders is how many compete for each mutex, like a Deployment of three replicas.
const contenders = 3

// change lets leaders come and go until there were rounds changes, or the context ends: then what there
// is has to do. Elections that take long run in groups side by side, each for a mutex of its own.
func (k *kind) change(ctx context.Context, mutex string, groups, rounds int, end func(contender, context.Context) (ending, error)) (series, error) {
	var all series
	var mu sync.Mutex
	var begun atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for i := range min(groups, rounds) {
		g.Go(func() error {
			e := &election{kind: k, mutex: fmt.Sprintf("%s-%d", mutex, i), leads: make(chan lead, 1000)}
			defer e.close()
			err := e.begin(ctx)
			for err == nil && begun.Add(1) <= int64(rounds) {
				var over ending
				var led time.Time
				if over, led, err = e.next(ctx, end); err == nil {
					mu.Lock()
					all.fromAsked = append(all.fromAsked, led.Sub(over.asked))
					all.fromFree = append(all.fromFree, led.Sub(over.free))
					mu.Unlock()
				}
			}
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
	err := g.Wait()
	return all, err
}

// election is some contenders for one mutex.
type election struct {
	*kind
	mutex   string
	started int
	members map[int]contender
	leader  int
	leads   chan lead // buffered for more than ever come
}

// lead tells that a member leads since then.
type lead struct {
	member int
	at     time.Time
}

// begin starts the first leader and then the others.
func (e *election) begin(ctx context.Context) error {
	e.members = map[int]contender{}
	if _, err := e.join(ctx); err != nil {
		return err
	}
	if _, err := e.elected(ctx); err != nil {
		return err
	}
	for len(e.members) < contenders {
		if err := e.standby(ctx); err != nil {
			return err
		}
	}
	return nil
}

// next ends the leader's term, waits for the successor and fills the gap.
func (e *election) next(ctx context.Context, end func(contender, context.Context) (ending, error)) (over ending, led time.Time, err error) {
	if err := sleep(ctx, e.settle+rand.N(e.spread)); err != nil {
		return over, led, err
	}
	for pending := len(e.leads); pending > 0; pending-- { // changes that nobody asked for, on a machine that stood still
		e.leader = (<-e.leads).member
	}
	old := e.members[e.leader]
	delete(e.members, e.leader)
	over, err = end(old, ctx)
	old.close()
	if err != nil {
		return over, led, err
	}
	if led, err = e.elected(ctx); err != nil {
		return over, led, err
	}
	return over, led, e.standby(ctx)
}

func (e *election) join(ctx context.Context) (contender, error) {
	e.started++
	number := e.started
	c, err := e.start(ctx, e.mutex, fmt.Sprintf("c%d", number), func(at time.Time) { e.leads <- lead{number, at} })
	if err != nil {
		return nil, err
	}
	e.members[number] = c
	return c, nil
}

func (e *election) standby(ctx context.Context) error {
	c, err := e.join(ctx)
	if err != nil {
		return err
	}
	return c.ready(ctx)
}

// elected waits for the next leader.
func (e *election) elected(ctx context.Context) (time.Time, error) {
	select {
	case l := <-e.leads:
		e.leader = l.member
		return l.at, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

func (e *election) close() {
	for _, c := range e.members {
		c.close()
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
