package election

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// call names a backend call.
type call string

const (
	acquire call = "acquire"
	renew   call = "renew"
	release call = "release"
	observe call = "observe"
)

// answer is what a call came back with.
type answer struct {
	call  call
	start instant // read before the request was sent
	hint  bool    // a hint asked for it
	lease Lease
	err   error
}

// term returns the term that a grant promises. Only what counts from the start of the call is certain.
func (a answer) term(c Contender) term {
	return term{
		token: a.lease.Token,
		until: a.start.add(a.lease.Remaining - c.Transition),
		gone:  a.start.add(a.lease.Remaining),
	}
}

// view is what we know of the mutex.
type view struct {
	known  bool
	holder string // "" for none
	token  uint64
	since  time.Time // when we first saw this holder's term
	until  instant   // others' lease runs until here, as far as we have learned
}

var errLate = errors.New("the answer came after the deadline of the lease that it granted")

const (
	spread     = 50 * time.Millisecond // over which contenders spread when a lease runs out
	hintSpread = 10 * time.Millisecond // over which they spread after a hint that woke all of them
)

// callable reports whether the phase makes a call when it is due.
func (l *loop) callable() bool {
	switch l.phase {
	case contending, leading, yielding:
		return !l.inFlight
	case releasing:
		return !l.inFlight && l.term != nil
	default:
		return false
	}
}

// startCall starts the call that is due, if one is, in a goroutine of its own.
func (l *loop) startCall() {
	hint := l.takeHint()
	now := l.clock.now()
	if !l.callable() || now.mono.Before(l.due) {
		return
	}
	a := answer{call: l.next, start: now, hint: hint}
	var token uint64
	switch l.phase {
	case leading, yielding:
		a.call, token = renew, l.term.token
	case releasing:
		a.call, token = release, l.term.token
	default:
		token = l.options.ResumeToken // contending renews for nothing else
	}
	timeout := l.callTimeout()
	l.inFlight = true
	l.pulse.callStarted(string(a.call), now.mono.Add(timeout))
	ctx, cancel := context.WithTimeout(l.calls, timeout)
	go func() {
		defer cancel()
		switch a.call {
		case acquire:
			a.lease, a.err = l.backend.Acquire(ctx)
		case renew:
			a.lease, a.err = l.backend.Renew(ctx, token)
		case release:
			a.err = l.backend.Release(ctx, token)
		case observe:
			a.lease, a.err = l.backend.Observe(ctx)
		}
		l.answers <- a
	}()
}

func (l *loop) answer(a answer) {
	now := l.clock.now()
	l.expire(now)
	l.inFlight = false
	took := a.start.since(now)
	if a.err != nil {
		a.err = fmt.Errorf("%s: %w", a.call, a.err)
	}
	// A candidate that can read a free mutex has not shown yet that it can take it.
	onlyRead := a.call == observe && a.err == nil && a.lease.Holder == "" && l.candidate()
	l.pulse.callReturned(a.err, !onlyRead)
	if f := l.options.Trace.Call; f != nil {
		f(string(a.call), took, a.err)
	}
	l.log.Debug("call", "call", a.call, "took", took, "holder", a.lease.Holder, "token", a.lease.Token, "err", a.err)
	if a.err != nil {
		l.unknown(a, now)
		return
	}
	if l.failures > 0 && (!onlyRead || !l.refused) {
		l.log.Info("the store answers again", "failures", l.failures)
		l.failures, l.failure, l.refused = 0, nil, false
	}
	switch {
	case a.call == release:
		l.released()
	case a.lease.Holder == l.contender.Identity && !l.options.ObserveOnly:
		l.ours(a, now)
	default:
		l.notOurs(a, now)
	}
}

// unknown handles an answer that says nothing: the call may have taken effect or not.
func (l *loop) unknown(a answer, now instant) {
	l.failures++
	l.failure = a.err
	if l.failures == 1 {
		l.log.Warn("no answer from the store", "err", a.err)
	}
	if l.options.FailFast && l.pulse.ready() != nil {
		l.phase, l.result = stopped, a.err
		return
	}
	l.due = now.mono.Add(l.backoff())
	switch {
	case a.call == acquire && l.phase == contending:
		l.doubt, l.refused, l.next = true, true, observe
	case a.call == acquire: // candidacy ended meanwhile
		l.term = &term{gone: a.start.add(l.contender.Lease())}
	case a.call == release:
		l.result = fmt.Errorf("%w, others wait until its lease runs out: %w", ErrNotReleased, a.err)
		if l.term.gone.until(now) <= 0 {
			l.term = nil
		}
	}
	if l.view.until.until(now) <= 0 && l.phase != leading && l.phase != yielding {
		l.view = view{}
	}
	l.publish(false)
}

// ours handles an answer that names us as the holder.
func (l *loop) ours(a answer, now instant) {
	t := a.term(l.contender)
	fresh := l.candidate() && (t.token > l.spent || l.resuming() && a.call == renew)
	switch {
	case l.phase == leading || l.phase == yielding:
		if t.token != l.term.token {
			l.notOurs(a, now)
			return
		}
		l.extend(a)
		l.publish(true) // while yielding too: what still runs has until the new cut-off
	case l.phase == contending && a.call == observe && fresh:
		l.next, l.due = acquire, now.mono // an Acquire whose answer was lost: adopt its term
	case l.phase == contending && fresh && t.until.until(now) > 0:
		reason := Acquired
		if l.resuming() {
			reason = Resumed
		}
		l.resumeBy, l.doubt = time.Time{}, false
		l.lead(a, reason)
	default: // too late, or no longer wanted: never published, given back once sinks have settled
		l.spent = max(l.spent, t.token)
		t.gone = a.start.add(l.contender.Lease())
		l.term = &t
		if l.phase == contending {
			l.decline(t.until.until(now) <= 0)
		}
	}
}

// decline gives back a term that was never published.
func (l *loop) decline(late bool) {
	if late && l.candidate() {
		l.failures++ // the next attempt waits longer
		l.failure = errLate
		l.log.Warn("no answer from the store", "err", errLate)
	}
	if l.resuming() {
		l.endResuming()
	}
	l.phase = ended
	l.publish(false)
	l.settle(l.clock.now().add(l.options.StopTimeout))
}

// notOurs handles an answer that names somebody else as the holder, or nobody.
func (l *loop) notOurs(a answer, now instant) {
	l.learn(a.lease)
	switch l.phase {
	case leading, yielding:
		l.endTerm(Lost)
		return
	case ended, releasing:
		if l.term != nil {
			l.spent = max(l.spent, l.term.token)
		}
		l.term = nil
	}
	if l.resuming() {
		l.endResuming()
	}
	l.doubt = false
	l.schedule(a, now)
	l.publish(false)
}

// schedule decides when a standby calls next. a names a foreign holder, or none.
func (l *loop) schedule(a answer, now instant) {
	poll := l.contender.TTL / 4
	if l.hints.standing.Load() {
		poll = l.contender.TTL
	}
	var wait time.Duration
	l.next = observe
	switch {
	case a.lease.Holder != "" && a.lease.Remaining > 0:
		l.view.until = a.start.add(a.lease.Remaining)
		wait = max(0, l.view.until.until(now)) + l.jitter(spread)
		switch {
		case !l.hints.standing.Load():
			wait = min(wait, poll+l.jitter(spread))
		case l.hints.exclusive && !a.hint:
			wait += l.jitter(l.contender.TTL / 4) // left to the one whom a hint will have woken
		}
	case a.lease.Holder != "":
		l.view.until = a.start.add(l.contender.TTL)
		wait = poll + l.jitter(spread)
	case !l.candidate():
		wait = poll
	case a.lease.Lapsed && l.view.until.until(now) > 0: // by the store's clock only
		wait = l.view.until.until(now) + l.jitter(spread)
	case a.call == acquire: // free, yet not granted: others were quicker, or the clock's tick was unlucky
		wait = time.Millisecond + l.jitter(spread)
	default:
		l.next = acquire
	}
	if !l.coolUntil.IsZero() && now.mono.Before(l.coolUntil) {
		wait = min(wait, l.coolUntil.Sub(now.mono))
	}
	l.due = now.mono.Add(wait)
}

// learn takes over whom an answer names as the holder.
func (l *loop) learn(lease Lease) {
	if !l.view.known || l.view.holder != lease.Holder || l.view.token != lease.Token {
		l.view.known, l.view.holder, l.view.token = true, lease.Holder, lease.Token
		l.view.since = time.Time{}
		if lease.Holder != "" {
			l.view.since = time.Now().Round(0)
			l.log.Debug("holder", "holder", lease.Holder, "token", lease.Token)
		}
	}
}

// released handles the store's word that our term is over.
func (l *loop) released() {
	l.spent = max(l.spent, l.term.token)
	l.term, l.result = nil, nil
	if l.view.holder == l.contender.Identity {
		l.view = view{known: true}
	}
}

// backoff returns how long to wait after the present streak of unknown answers: nothing without one,
// then from 50 ms on twice as long each time, up to a tenth of TTL while there is a lease to keep and
// else a quarter, less up to half of it at random.
func (l *loop) backoff() time.Duration {
	if l.failures == 0 {
		return 0
	}
	limit := l.contender.TTL / 4
	if l.phase == leading || l.phase == yielding || l.resuming() {
		limit = l.contender.TTL / 10
	}
	d := min(limit, 50*time.Millisecond<<min(l.failures-1, 10))
	return d - l.jitter(d/2)
}
