package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// checkLimit bounds one check. The model leaves next to nothing to search, so a check that takes longer
// has lost its way in a history that is wrong in many places.
const checkLimit = time.Minute

// History records what contenders asked of one mutex and what they were told, and checks that a single,
// correct lease could have given these answers. The zero value is ready to use.
//
// Times come from time.Now and the recorder starts no goroutine, so a History also works inside a
// synctest bubble.
type History struct {
	// Late is how much longer than a contender's lease the store may keep a term that nobody renews,
	// for stores whose leases do not end to the millisecond. It is read by Check.
	Late time.Duration

	mu     sync.Mutex
	start  time.Time // of the first call
	calls  []*record
	events int64
}

// record is one call. Its times may equal another's, as they do under a fake clock; its positions in the
// order of all events do not.
type record struct {
	in           input
	out          output
	began, ended int64
}

// Record returns b with every call of contender c written down. Backends of one identity, such as a
// stale copy of a process, may record at the same time. If b is an election.Watcher, so is the result.
func (h *History) Record(b election.Backend, c election.Contender) election.Backend {
	r := &recorder{Backend: b, history: h, contender: c}
	if w, ok := b.(election.Watcher); ok {
		return struct {
			*recorder
			watching
		}{r, w}
	}
	return r
}

// watching is election.Watcher under a name that may be embedded beside a Backend.
type watching interface {
	Watch(ctx context.Context, notify func()) error
	Exclusive() bool
}

type recorder struct {
	election.Backend
	history   *History
	contender election.Contender
}

func (r *recorder) Acquire(ctx context.Context) (election.Lease, error) {
	done := r.begin(acquire, 0)
	lease, err := r.Backend.Acquire(ctx)
	done(lease, err)
	return lease, err
}

func (r *recorder) Renew(ctx context.Context, token uint64) (election.Lease, error) {
	done := r.begin(renew, token)
	lease, err := r.Backend.Renew(ctx, token)
	done(lease, err)
	return lease, err
}

func (r *recorder) Release(ctx context.Context, token uint64) error {
	done := r.begin(release, token)
	err := r.Backend.Release(ctx, token)
	done(election.Lease{}, err)
	return err
}

func (r *recorder) Observe(ctx context.Context) (election.Lease, error) {
	done := r.begin(observe, 0)
	lease, err := r.Backend.Observe(ctx)
	done(lease, err)
	return lease, err
}

// begin writes the start of a call down and returns what writes down its answer.
func (r *recorder) begin(v verb, token uint64) func(election.Lease, error) {
	h := r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.start.IsZero() {
		h.start = time.Now()
	}
	rec := &record{in: input{
		verb: v, identity: r.contender.Identity, token: token,
		lease: r.contender.Lease(), start: time.Since(h.start),
	}}
	rec.began = h.next()
	h.calls = append(h.calls, rec)
	return func(lease election.Lease, err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		rec.ended = h.next()
		rec.out = output{known: err == nil, err: err, lease: lease, end: time.Since(h.start)}
	}
}

// next returns the position of the next event. Callers hold h.mu.
func (h *History) next() int64 {
	h.events++
	return h.events
}

// Terms returns how many terms were granted, as far as the contenders know. A random run asserts a
// minimum: one in which nothing happened proves nothing.
func (h *History) Terms() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	tokens := map[uint64]bool{}
	for _, c := range h.calls {
		if c.out.known && c.in.grants(c.out) {
			tokens[c.out.lease.Token] = true
		}
	}
	return len(tokens)
}

// Check fails the test unless one correct lease explains every answer. Calls that ended in an error, or
// have not ended, may have taken effect once at any time since they began, or never.
func (h *History) Check(t testing.TB) {
	t.Helper()
	if err := h.verify(); err != nil {
		t.Error(err)
	}
}

func (h *History) verify() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops := make([]porcupine.Operation, len(h.calls))
	for i, c := range h.calls {
		ops[i] = porcupine.Operation{Input: c.in, Output: c.out, Call: c.began, Return: c.ended}
		if !c.out.known {
			// The model keeps the effect for as long as it may still come, so to the checker the call is
			// over at once. A call that lasts until the end of the history would say the same at an
			// exponential price.
			ops[i].Return = c.began
		}
	}
	m := model(h.Late)
	result, info := porcupine.CheckOperationsVerbose(m, ops, checkLimit)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("no verdict on a history of %d calls within %v", len(ops), checkLimit)
	}
	return explain(m, ops, info)
}

// explain says how far the history makes sense, and what comes next.
func explain(m porcupine.Model, ops []porcupine.Operation, info porcupine.LinearizationInfo) error {
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, ops := range partition {
			if len(ops) > len(longest) {
				longest = ops
			}
		}
	}
	const shown = 12
	var b strings.Builder
	fmt.Fprintf(&b, "no correct lease gives these answers: %d of %d calls make sense in this order (the last %d shown)\n", len(longest), len(ops), shown)
	state, explained := m.Init(), map[int64]bool{}
	for i, op := range longest {
		_, state = m.Step(state, op.Input, op.Output)
		explained[op.Call] = true
		if i >= len(longest)-shown {
			fmt.Fprintf(&b, "  %s\n    so the store is %s\n", m.DescribeOperation(op.Input, op.Output), m.DescribeState(state))
		}
	}
	fmt.Fprintf(&b, "and none of these can follow:\n")
	rest := slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool { return explained[op.Call] })
	for _, op := range rest[:min(shown, len(rest))] {
		fmt.Fprintf(&b, "  %s\n", m.DescribeOperation(op.Input, op.Output))
	}
	return errors.New(b.String())
}
