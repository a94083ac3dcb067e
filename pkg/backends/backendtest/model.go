package backendtest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

type verb string

const (
	acquire verb = "acquire"
	renew   verb = "renew"
	release verb = "release"
	observe verb = "observe"
)

// input is what a contender asked; times count from the first call of the history.
type input struct {
	verb     verb
	identity string
	token    uint64 // of renew and release
	lease    time.Duration
	start    time.Duration
}

// output is what it was told. The zero output is a call that has not ended.
type output struct {
	known bool
	err   error
	lease election.Lease
	end   time.Duration
}

// grants reports whether out gives the caller a term, as opposed to news of it.
func (in input) grants(out output) bool {
	return out.known && out.lease.Holder == in.identity &&
		(in.verb == acquire || in.verb == renew && out.lease.Token == in.token)
}

const never = time.Duration(math.MaxInt64)

// lease is the state of the model: what the store may hold.
//
// The store's own moment of expiry is not known, only bounds on it, so a lease whose earliest end has
// passed is neither held nor free until somebody's answer decides.
type lease struct {
	holder   string        // "" when free
	token    uint64        // of holder's term; 0 while no answer has told it
	largest  uint64        // no new term's token is at or below this
	earliest time.Duration // nobody else may get the mutex before: the promise of the last grant
	latest   time.Duration // nobody may be told that the term goes on after
	late     []effect      // of calls with an unknown outcome that may still execute, in order
}

// effect is what a call with an unknown outcome does if it executes.
type effect struct {
	verb     verb
	identity string
	token    uint64        // of a release
	until    time.Duration // of an acquire: the earliest end of the term it begins
}

// model is a lease as a nondeterministic state machine.
//
// A call with an unknown outcome forks it into "took effect" and "did not, so far". The fork is put off
// until an answer calls for it: an effect that no answer shows changes nothing that can be checked, and
// a state in which it has yet to happen allows all that the other allows.
func model(late time.Duration) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{lease{}} },
		Step: func(s, in, out any) []any {
			var next []any
			for _, l := range s.(lease).step(in.(input), out.(output), late) {
				next = append(next, l)
			}
			return next
		},
		Equal: func(a, b any) bool {
			x, y := a.(lease), b.(lease)
			return x.holder == y.holder && x.token == y.token && x.largest == y.largest &&
				x.earliest == y.earliest && x.latest == y.latest && slices.Equal(x.late, y.late)
		},
		DescribeOperation: func(in, out any) string { return describe(in.(input), out.(output)) },
		DescribeState:     func(s any) string { return s.(lease).String() },
	}
	return m.ToModel()
}

func (l lease) step(in input, out output, late time.Duration) []lease {
	if !out.known {
		return []lease{l.put(in)}
	}
	if in.verb == release {
		return l.release(in.identity, in.token)
	}
	if next, ok := l.answer(in, out, late); ok {
		return []lease{next}
	}
	// Only what executed late can explain the answer: the holder's release, the reported holder's
	// acquire, or one after the other.
	var next []lease
	for _, freed := range l.releases() {
		if n, ok := freed.answer(in, out, late); ok {
			next = append(next, n)
		} else if n, ok := freed.acquireLate(in, out); ok {
			if n, ok = n.answer(in, out, late); ok {
				next = append(next, n)
			}
		}
	}
	if n, ok := l.acquireLate(in, out); ok {
		if n, ok = n.answer(in, out, late); ok {
			next = append(next, n)
		}
	}
	return next
}

// answer returns the state after a call that answered out, if l can give that answer.
func (l lease) answer(in input, out output, late time.Duration) (lease, bool) {
	told, lapsed := out.lease, out.end >= l.earliest
	switch {
	case told.Holder == "":
		l, ok := l, l.holder == "" || lapsed
		return l.over(), ok
	case l.names(told):
		if in.start > l.latest {
			return l, false // the store's last chance to extend this term was before this call
		}
		l.know(told.Token)
		if in.grants(out) {
			l.extend(in, out, late)
		}
		return l, true
	case in.verb == acquire && in.grants(out):
		if l.holder != "" && !lapsed || told.Token <= l.largest {
			return l, false
		}
		l = l.over()
		l.holder, l.latest = told.Holder, 0
		l.know(told.Token)
		l.extend(in, out, late)
		return l, true
	}
	return l, false
}

// names reports whether an answer can speak of the present term. Either side may not know the token.
func (l lease) names(told election.Lease) bool {
	if told.Holder != l.holder {
		return false
	}
	return told.Token == 0 || told.Token == l.token || l.token == 0 && told.Token > l.largest
}

func (l *lease) know(token uint64) {
	if token != 0 {
		l.token, l.largest = token, max(l.largest, token)
	}
}

// extend moves the bounds of the expiry as a good call does: the store executed it between its start
// and its end. The bounds never move back.
func (l *lease) extend(in input, out output, late time.Duration) {
	l.earliest = max(l.earliest, in.start+out.lease.Remaining)
	l.latest = max(l.latest, out.end+in.lease+late)
	if slices.ContainsFunc(l.late, func(e effect) bool { return e.verb == acquire && e.identity == l.holder }) {
		l.latest = never // that acquire may yet adopt the term, and so extend it
	}
}

// over ends the term. What would have released it can do nothing any more.
func (l lease) over() lease {
	l.late = slices.DeleteFunc(slices.Clone(l.late), func(e effect) bool {
		return e.verb == release && e.token != 0 && e.token <= l.largest
	})
	l.holder, l.token, l.earliest, l.latest = "", 0, 0, never
	return l
}

// release returns the states after a release that was answered.
func (l lease) release(identity string, token uint64) []lease {
	switch {
	case l.holder != identity || token != 0 && l.token != 0 && token != l.token:
		return []lease{l}
	case token != 0 && l.token == 0: // a term whose token nobody has been told may be this one
		return []lease{l, l.over()}
	}
	return []lease{l.over()}
}

// put notes a call with an unknown outcome.
func (l lease) put(in input) lease {
	mine := l.holder == in.identity
	if mine && (in.verb == acquire || in.verb == renew && (l.token == 0 || l.token == in.token)) {
		l.latest = never // it may extend the term at any time
	}
	if in.verb == acquire || in.verb == release {
		e := effect{verb: in.verb, identity: in.identity, token: in.token}
		if in.verb == acquire {
			e.until = in.start + in.lease
		}
		l.late = append(slices.Clone(l.late), e)
		slices.SortFunc(l.late, effect.compare)
	}
	return l
}

// releases returns the states after one of the releases under way has ended the present term.
func (l lease) releases() []lease {
	var next []lease
	for i, e := range l.late {
		if e.verb == release && e.identity == l.holder && (e.token == 0 || l.token == 0 || e.token == l.token) {
			freed := l
			freed.late = slices.Delete(slices.Clone(l.late), i, i+1)
			next = append(next, freed.over())
		}
	}
	return next
}

// acquireLate returns the state after an acquire under way of the holder that out reports. Of several the
// first asked is taken: its promise ends first, and the others can still do all that it could.
func (l lease) acquireLate(in input, out output) (lease, bool) {
	i := slices.IndexFunc(l.late, func(e effect) bool { return e.verb == acquire && e.identity == out.lease.Holder })
	if i < 0 || l.holder != "" && out.end < l.earliest {
		return l, false
	}
	if in.grants(out) && in.verb == acquire {
		return l, false // granted in its own right if at all
	}
	e := l.late[i]
	l.late = slices.Delete(slices.Clone(l.late), i, i+1)
	l = l.over()
	l.holder, l.earliest = e.identity, e.until
	return l, true
}

func (e effect) compare(o effect) int {
	return cmp.Or(cmp.Compare(e.verb, o.verb), cmp.Compare(e.identity, o.identity),
		cmp.Compare(e.token, o.token), cmp.Compare(e.until, o.until))
}

func (e effect) String() string {
	if e.token != 0 {
		return fmt.Sprintf("%s's %s of %d", e.identity, e.verb, e.token)
	}
	return fmt.Sprintf("%s's %s", e.identity, e.verb)
}

func describe(in input, out output) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8.3fs %s: %s", in.start.Seconds(), in.identity, in.verb)
	if in.token != 0 {
		fmt.Fprintf(&b, " %d", in.token)
	}
	switch {
	case out.err != nil:
		fmt.Fprintf(&b, ": unknown: %v", out.err)
	case !out.known:
		fmt.Fprintf(&b, ": has not ended")
	case in.verb == release:
		fmt.Fprintf(&b, ": done at %.3fs", out.end.Seconds())
	case in.grants(out):
		fmt.Fprintf(&b, ": granted at %.3fs with token %d for %v", out.end.Seconds(), out.lease.Token, out.lease.Remaining)
	default:
		fmt.Fprintf(&b, ": told at %.3fs that the holder is %q with token %d", out.end.Seconds(), out.lease.Holder, out.lease.Token)
	}
	return b.String()
}

func (l lease) String() string {
	s := "free"
	if l.holder != "" {
		s = fmt.Sprintf("held by %s with token %d until %.3fs or later", l.holder, l.token, l.earliest.Seconds())
	}
	for i, e := range l.late { // equal ones stand together
		if i > 0 && e.String() == l.late[i-1].String() {
			continue
		}
		n := 0
		for _, other := range l.late {
			if other.String() == e.String() {
				n++
			}
		}
		s += fmt.Sprintf(", %d× %s may yet execute", n, e)
	}
	return s
}
