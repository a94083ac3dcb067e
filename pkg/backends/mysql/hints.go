package mysql

import (
	"context"
	"time"
)

const (
	// lockPatience bounds one wait for a lock. After it, Watch connects anew: the name may lead to another
	// server by now, and a waiter that was cut off is not in the queue forever.
	lockPatience = 5 * time.Minute
	// headPatience is how long the head, having the leader's lock, waits for its contender to act.
	headPatience = 100 * time.Millisecond
	// lookAgain is the pause between two looks at a row whose holder does not have the leader's lock.
	lookAgain = 250 * time.Millisecond
	// lookAway is how long a head whose contender did not act stays out of the queue.
	lookAway = time.Second
)

// watched is a Backend with hints.
type watched struct{ *Backend }

// Exclusive implements election.Watcher.
func (w *watched) Exclusive() bool { return true }

// Watch implements election.Watcher. Where it ends while this contender leads, the leader's lock stays with
// the connection that renews the term.
func (w *watched) Watch(parent context.Context, notify func()) error {
	ctx, done, err := w.begin(parent)
	if err != nil {
		return err
	}
	defer done()
	err = w.watch(ctx, notify)
	switch {
	case parent.Err() != nil:
		return parent.Err()
	case ctx.Err() != nil:
		return errClosed
	}
	return w.explain(err)
}

// watch moves through the states that the package comment describes, until something breaks.
func (b *Backend) watch(ctx context.Context, notify func()) error {
	s, err := b.startWatching(ctx)
	if err != nil {
		return err
	}
	defer b.stopWatching(s)
	if err := b.tryLocks(ctx, s); err != nil {
		return err
	}
	if !s.leader { // else hold does it at once
		notify()
	}
	for err == nil {
		leading := b.leads()
		switch {
		case s.leader:
			err = b.hold(ctx, s, notify)
		case leading, s.queue:
			err = b.await(ctx, s, &s.leader)
		default:
			err = b.queueUp(ctx, s)
		}
	}
	return err
}

// startWatching returns a session for Watch to use: the one that has the leader's lock, if a former Watch
// left it to the calls, or else a new one.
func (b *Backend) startWatching(ctx context.Context) (*session, error) {
	b.mu.Lock()
	b.watching = true
	s := b.lent
	b.mu.Unlock()
	if s != nil {
		b.takeBack(s)
		if s.broken == nil {
			return s, nil
		}
		s.close()
	}
	s = &session{}
	s.use.Lock()
	if err := b.reconnect(ctx, s); err != nil {
		b.mu.Lock()
		b.watching = false
		b.mu.Unlock()
		return nil, err
	}
	return s, nil
}

// stopWatching leaves a leader's session to the calls and closes any other.
func (b *Backend) stopWatching(s *session) {
	b.takeBack(s)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watching = false
	if s.leader && s.broken == nil && b.standing.leading && !b.closed {
		b.lend(s)
		return
	}
	s.close()
	s.use.Unlock()
}

// tryLocks takes what is to be had at once, and finds out whether the server gives locks at all.
func (b *Backend) tryLocks(ctx context.Context, s *session) error {
	if s.leader {
		return nil
	}
	if !b.leads() {
		if err := b.lock(ctx, s, &s.queue, 0); err != nil || !s.queue {
			return err
		}
	}
	return b.lock(ctx, s, &s.leader, 0)
}

// await waits for one of the locks. Without it, the session is new.
func (b *Backend) await(ctx context.Context, s *session, held *bool) error {
	if err := b.lock(ctx, s, held, lockPatience); err != nil || *held {
		return err
	}
	return b.reconnect(ctx, s)
}

// queueUp waits for the queue's lock, or until the contender leads: it may take a row whose lease has run
// out without any hint.
func (b *Backend) queueUp(ctx context.Context, s *session) error {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	b.mu.Lock()
	b.onLead = cancel
	leading := b.standing.leading
	b.mu.Unlock()
	var err error
	if !leading {
		err = b.await(wait, s, &s.queue)
	}
	b.mu.Lock()
	b.onLead = nil
	b.mu.Unlock()
	if wait.Err() != nil && ctx.Err() == nil {
		return b.reconnect(ctx, s) // giving up has cost the connection, even if the lock came just then
	}
	return err
}

// hold lends the session, which has the leader's lock, to the calls until there is a reason to let go of
// the lock.
func (b *Backend) hold(ctx context.Context, s *session, notify func()) error {
	b.mu.Lock()
	before := b.standing
	b.lend(s)
	b.mu.Unlock()
	notify()
	patience := time.NewTimer(headPatience)
	defer patience.Stop()
	led, idle := before.leading, false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			idle = true
		case <-b.wake:
		}
		b.mu.Lock()
		now, broken, released := b.standing, s.broken, !s.leader
		b.mu.Unlock()
		heldByOther := now.answers > before.answers && now.holder != ""
		switch {
		case broken != nil:
			return broken
		case released:
			b.takeBack(s)
			return s.broken
		case now.leading:
			led = true
		case led: // the term is over, and was not released
			return b.letGo(ctx, s, 0)
		case heldByOther:
			return b.lookAgain(ctx, s)
		case idle: // not interested, as during a cool-down, or not able: let the others try
			return b.letGo(ctx, s, lookAway)
		}
	}
}

// lookAgain is for a row whose holder does not have the leader's lock. It gives the holder the chance to
// get it.
func (b *Backend) lookAgain(ctx context.Context, s *session) error {
	b.takeBack(s)
	if s.broken != nil || b.leads() {
		return s.broken
	}
	if err := b.unlockLeader(ctx, s); err != nil {
		return err
	}
	return b.pause(ctx, s, lookAgain)
}

// letGo returns to the end of the queue, after a pause.
func (b *Backend) letGo(ctx context.Context, s *session, d time.Duration) error {
	b.takeBack(s)
	if s.broken != nil || b.leads() {
		return s.broken
	}
	if err := b.unlockBoth(ctx, s); err != nil {
		return err
	}
	return b.pause(ctx, s, d)
}

// pause lends the session to the calls for d, or until the contender leads.
func (b *Backend) pause(ctx context.Context, s *session, d time.Duration) error {
	if d == 0 {
		return nil
	}
	b.mu.Lock()
	b.lend(s)
	b.mu.Unlock()
	over := time.NewTimer(d)
	defer over.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over.C:
			waiting = false
		case <-b.wake:
			b.mu.Lock()
			waiting = s.broken == nil && !b.standing.leading
			b.mu.Unlock()
		}
	}
	b.takeBack(s)
	return s.broken
}

func (b *Backend) leads() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.standing.leading
}

// lend lets calls use the session. The caller has b.mu and the session.
func (b *Backend) lend(s *session) {
	b.lent, s.lent = s, true
	s.use.Unlock()
}

// takeBack ends lend, once a call that is using the session has returned.
func (b *Backend) takeBack(s *session) {
	b.mu.Lock()
	lent := s.lent
	s.lent = false
	if b.lent == s {
		b.lent = nil
	}
	b.mu.Unlock()
	if lent {
		s.use.Lock()
	}
}

// reconnect gives the session a new connection, without locks.
func (b *Backend) reconnect(ctx context.Context, s *session) error {
	s.close()
	ctx, cancel := context.WithTimeout(ctx, b.contender.TTL)
	defer cancel()
	conn, err := b.connect(ctx)
	if err != nil {
		return err
	}
	b.setLocks(s, nil, func() { s.conn, s.broken, s.queue, s.leader = conn, nil, false, false })
	return nil
}
