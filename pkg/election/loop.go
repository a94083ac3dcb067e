package election

import (
	"context"
	"fmt"
	"time"
)

// phase is where the loop stands; doc.go has the diagram.
type phase int

const (
	contending phase = iota // no term: read, and take the mutex when it is free
	leading                 // a term: published and renewed
	yielding                // giving up on purpose: sinks settle while the lease goes on being renewed
	ended                   // leading, or candidacy, is over: sinks settle and a call in flight is awaited
	releasing               // sinks have settled: what may still be ours in the store is given back
	stopped
)

// loop is the state of one Run. One goroutine owns it, and does no I/O.
type loop struct {
	*Elector
	phase phase
	view  view // what we know of the mutex

	term   *term   // ours, held or still to be given back; nil without one
	spent  uint64  // the largest token of our terms that are over
	cutoff instant // what follows our last term must have stopped by then

	calls    context.Context // what backend calls descend from: it outlives the context of Run
	next     call            // what contending calls next
	due      time.Time       // when the phase's next call is due
	inFlight bool
	answers  chan answer // buffered, so that a call that outlives the loop finds room
	doubt    bool        // an Acquire of unknown effect: we may have a term without knowing
	failures int         // unknown answers in a row; good reads of a free mutex that cannot be taken do not count
	refused  bool        // the streak has an Acquire in it
	failure  error       // the last of them, nil after a good answer
	hints    hints

	settled  chan error // buffered, for the same reason
	settling context.CancelFunc
	settleBy instant

	resumeBy  time.Time // a predecessor's term may be continued until then; zero: not, or no longer
	coolUntil time.Time // we do not contend before
	stopBy    time.Time // Run returns by then; zero: not asked to stop
	yielded   bool      // what ended leading was on purpose
	waiters   []chan error
	result    error
}

// term is a lease of ours.
type term struct {
	token uint64  // 0: whatever term this identity may have
	until instant // we may act until here
	gone  instant // everybody else waits until here
}

func newLoop(ctx context.Context, e *Elector) *loop {
	l := &loop{
		Elector: e,
		calls:   context.WithoutCancel(ctx),
		next:    observe,
		due:     time.Now(),
		answers: make(chan answer, 1),
		settled: make(chan error, 1),
		hints:   hints{wake: make(chan struct{}, 1)},
	}
	if e.options.ResumeToken != 0 {
		l.next, l.resumeBy = renew, l.due.Add(e.contender.Lease())
	}
	return l
}

func (l *loop) run(ctx context.Context) error {
	defer l.pulse.stop()
	defer l.follow()()
	l.publish(true) // sinks may show what a process before us left
	timer := time.NewTimer(0)
	defer timer.Stop()
	for l.advance(); l.phase != stopped; l.advance() {
		l.startCall()
		timer.Reset(l.sleep())
		stop := ctx.Done()
		if l.stopping() {
			stop = nil
		}
		select {
		case <-timer.C:
		case <-l.hints.wake:
			l.hints.pending = true
		case a := <-l.answers:
			l.answer(a)
		case r := <-l.requests:
			l.stepDown(r)
		case <-stop:
			l.stop()
		case err := <-l.settled:
			l.settling()
			l.settling = nil
			if err != nil {
				l.log.Warn("sinks have not settled", "err", err)
			}
		}
		if ctx.Err() != nil && !l.stopping() { // before anything else that was ready at the same time
			l.stop()
		}
	}
	l.reply()
	return l.result
}

func (l *loop) stopping() bool { return !l.stopBy.IsZero() }
func (l *loop) resuming() bool { return !l.resumeBy.IsZero() }

// candidate reports whether a contending loop wants the mutex.
func (l *loop) candidate() bool {
	return !l.options.ObserveOnly && !time.Now().Before(l.coolUntil)
}

// sleep returns for how long nothing is due. It never exceeds a quarter of TTL: that is the heartbeat,
// and the longest that sinks may not hear of a deadline that passed while the machine was suspended.
func (l *loop) sleep() time.Duration {
	now := l.clock.now()
	d := l.contender.TTL / 4
	if l.callable() {
		d = min(d, l.due.Sub(now.mono))
	}
	if l.phase == leading || l.phase == yielding {
		d = min(d, l.term.until.until(now))
	}
	if l.settling != nil {
		d = min(d, l.settleBy.until(now))
	}
	if l.resuming() {
		d = min(d, l.resumeBy.Sub(now.mono))
	}
	if l.stopping() {
		d = min(d, l.stopBy.Sub(now.mono))
	}
	return max(d, 0)
}

// advance does what the clocks alone demand and moves through the phases that end a term.
func (l *loop) advance() {
	now := l.clock.now()
	l.pulse.beatAt(now.mono)
	l.expire(now)
	if l.resuming() && !now.mono.Before(l.resumeBy) {
		l.endResuming()
		l.publish(false)
	}
	if l.settling != nil && l.settleBy.until(now) <= 0 {
		l.settling() // Settle returns, and says so
	}
	if l.settling == nil && (l.phase == yielding || l.phase == ended && !l.inFlight) {
		l.phase, l.due = releasing, now.mono
	}
	if l.phase == releasing && l.term == nil && !l.inFlight {
		l.rest(now)
	}
	if l.stopping() && l.phase != stopped && !now.mono.Before(l.stopBy) {
		l.phase = stopped
		if l.result == nil && (l.term != nil || l.inFlight) {
			l.result = fmt.Errorf("%w: %w", ErrNotReleased, context.DeadlineExceeded)
		}
	}
}

// lead begins a term, or continues a predecessor's.
func (l *loop) lead(a answer, reason string) {
	l.phase = leading
	l.learn(a.lease)
	l.extend(a)
	l.publish(true)
	l.log.Info("leading", "reason", reason, "token", l.term.token, "until", l.State().ExpiresAt())
	l.trace(reason)
}

// extend takes over what a good answer promises about our term.
func (l *loop) extend(a answer) {
	t := a.term(l.contender)
	l.due = a.start.mono.Add(t.until.mono.Sub(a.start.mono) / 3)
	l.term = &t
	l.cutoff = t.until.add(l.contender.Transition / 2)
}

// expire ends leading at the deadline and for good: an answer that comes later revives nothing.
func (l *loop) expire(now instant) {
	if l.phase != leading && l.phase != yielding || l.term.until.until(now) > 0 {
		return
	}
	l.view = view{}
	l.endTerm(Expired)
}

// endTerm ends leading without having been asked to.
func (l *loop) endTerm(reason string) {
	token, unasked := l.term.token, l.phase == leading
	l.spent = max(l.spent, token)
	l.phase = ended
	if reason == Lost {
		l.term = nil
	}
	l.publish(false)
	if !unasked { // yielding: the sinks know, and have less time now
		l.settleBy = l.cutoff
		return
	}
	log := l.log.With("reason", reason, "token", token)
	switch {
	case l.failure != nil:
		log.Warn("not leading", "err", l.failure)
	default:
		log.Warn("not leading", "holder", l.view.holder)
	}
	l.trace(reason)
	by := l.clock.now().add(l.callTimeout())
	if l.cutoff.until(by) > 0 { // it has not passed long ago, as after a freeze
		by = l.cutoff
	}
	l.settle(by)
}

// giveUp ends candidacy on purpose. A call in flight is awaited, and its win never published.
func (l *loop) giveUp(reason string) {
	now := l.clock.now()
	switch l.phase {
	case leading:
		l.phase, l.yielded = yielding, true
		l.publish(false)
		l.log.Info("not leading", "reason", reason, "token", l.term.token)
		l.trace(reason)
	case contending:
		l.phase = ended
		switch {
		case l.resuming(): // what follows the predecessor's term must settle before it is released
			l.endResuming()
			l.term = &term{token: l.options.ResumeToken, gone: now.add(l.contender.Lease())}
		case l.doubt:
			l.term = &term{gone: now.add(l.contender.Lease())}
		}
		l.publish(false)
	default: // already giving up what we had
		l.publish(false)
		return
	}
	l.settle(now.add(l.options.StopTimeout))
}

func (l *loop) stop() {
	l.stopBy = time.Now().Add(l.options.StopTimeout + 2*l.callTimeout())
	l.giveUp(Released)
}

func (l *loop) stepDown(r stepDown) {
	l.waiters = append(l.waiters, r.done)
	if until := time.Now().Add(r.cooldown); until.After(l.coolUntil) {
		l.coolUntil = until
	}
	l.hints.leaveQueue(l.coolUntil)
	l.log.Info("cool-down", "until", l.coolUntil.Round(0))
	l.giveUp(StepDown)
}

func (l *loop) endResuming() {
	l.resumeBy, l.next = time.Time{}, observe
	l.spent = max(l.spent, l.options.ResumeToken)
}

func (l *loop) settle(by instant) {
	ctx, cancel := context.WithCancel(l.calls)
	l.settling, l.settleBy = cancel, by
	go func() { l.settled <- l.publisher.Settle(ctx) }()
}

// rest is reached when nothing is left of our last term.
func (l *loop) rest(now instant) {
	l.yielded, l.doubt = false, false
	l.phase, l.next = contending, observe
	l.due = now.mono.Add(l.backoff() + l.jitter(spread))
	if l.stopping() {
		l.phase = stopped
	} else {
		l.reply()
		l.result = nil
	}
	l.publish(false)
}

// reply answers those who asked us to step down.
func (l *loop) reply() {
	for _, w := range l.waiters {
		w <- l.result
	}
	l.waiters = nil
}

func (l *loop) trace(reason string) {
	if f := l.options.Trace.Transition; f != nil {
		f(reason)
	}
}

// publish tells of the state that the loop's variables amount to, if it differs from the last or is a
// renewal.
func (l *loop) publish(renewal bool) {
	last := *l.state.Load()
	s := State{
		Mutex:    l.contender.Mutex,
		Identity: l.contender.Identity,
		Holder:   l.view.holder,
		Token:    l.view.token,
		Since:    l.view.since,
		Revision: last.Revision,
		Resuming: l.resuming(),
		cutoff:   l.cutoff,
	}
	switch {
	case l.phase == leading:
		s.Status, s.clock, s.until = Leader, l.clock, l.term.until
	case l.stopping() || l.yielded:
		s.Status = SteppingDown
	case l.options.ObserveOnly:
		s.Status = Observer
	case l.view.known:
		s.Status = Standby
	default:
		s.Status = Unknown
	}
	switch {
	case l.failure != nil:
		s.Reason = "store: " + l.failure.Error()
	case time.Now().Before(l.coolUntil):
		s.Reason = "cooldown"
	}
	if s.Status != last.Status || s.Holder != last.Holder || s.Token != last.Token {
		s.Revision = nextRevision(last.Revision)
	} else if !renewal && s.Reason == last.Reason && s.Resuming == last.Resuming {
		return
	}
	l.state.Store(&s)
	l.publisher.Publish(s)
}
