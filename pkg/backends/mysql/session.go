package mysql

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// session is one connection to the server.
type session struct {
	conn *sql.Conn
	used time.Time // by a call

	// Of a session that Watch opened:
	use    sync.Mutex // held by whoever uses conn: Watch, except while it has lent the session
	lent   bool       // by Watch, which has not taken it back
	broken error      // why it must not be used any more; changes under Backend.mu, like the next two
	queue  bool       // it has the queue's lock
	leader bool       // it has the leader's lock
}

// close ends the connection, and with it the session's locks. A nil session is closed.
func (s *session) close() {
	if s != nil && s.conn != nil {
		_ = s.conn.Close() // it may have been broken already
		s.conn = nil
	}
}

var errClosed = errors.New("the backend is closed")

// begin counts something as running that Close ends. The caller must call done.
func (b *Backend) begin(parent context.Context) (ctx context.Context, done func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, errClosed
	}
	ctx, cancel := context.WithCancel(parent)
	b.started++
	id := b.started
	b.ends[id] = cancel
	b.running.Add(1)
	return ctx, func() {
		cancel()
		b.mu.Lock()
		delete(b.ends, id)
		b.mu.Unlock()
		b.running.Done()
	}, nil
}

// query makes one call's statements on a session. start is when the call began.
type query func(ctx context.Context, s *session, start time.Time) (election.Lease, error)

// call makes q on the connection that calls use now, and draws the conclusions from its answer.
func (b *Backend) call(parent context.Context, q query) (election.Lease, error) {
	start := time.Now()
	ctx, done, err := b.begin(parent)
	if err != nil {
		return election.Lease{}, err
	}
	defer done()
	lease, err := b.try(ctx, q, start)
	if errors.Is(err, sqldriver.ErrBadConn) { // it was dead before anything was sent
		lease, err = b.try(ctx, q, start)
	}
	if err != nil && ctx.Err() != nil && parent.Err() == nil {
		err = errClosed
	}
	return lease, b.explain(err)
}

func (b *Backend) try(ctx context.Context, q query, start time.Time) (election.Lease, error) {
	s, giveBack, err := b.borrow(ctx)
	if err != nil {
		return election.Lease{}, err
	}
	defer giveBack()
	lease, err := q(ctx, s, start)
	if err != nil {
		lease = election.Lease{}
	}
	b.conclude(ctx, s, lease, err)
	return lease, err
}

// borrow returns Watch's session if it is lent, else the calls' own, which it opens if need be.
func (b *Backend) borrow(ctx context.Context) (s *session, giveBack func(), err error) {
	b.mu.Lock()
	lent := b.lent
	if lent != nil {
		lent.use.Lock() // free, because calls are never concurrent
	}
	b.mu.Unlock()
	if lent != nil {
		b.own.close()
		b.own = nil
		return lent, lent.use.Unlock, nil
	}
	if b.own != nil && time.Since(b.own.used) > b.contender.TTL/2 {
		b.own.close() // the server is about to
		b.own = nil
	}
	if b.own == nil {
		conn, err := b.connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		b.own = &session{conn: conn}
	}
	return b.own, func() {}, nil
}

// conclude takes over what an answer says. After an error no connection is trusted; a standby keeps none.
func (b *Backend) conclude(ctx context.Context, s *session, lease election.Lease, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.used = time.Now()
	keep := false
	if err != nil {
		b.tableOK, b.rowOK = false, false // the next connection may reach another server
		s.broken = err
	} else {
		s.broken = cmp.Or(s.broken, ctx.Err()) // a call that ended just in time has cost the connection
		b.seen = max(b.seen, lease.Token)
		b.standing.answers++
		b.standing.holder = lease.Holder
		b.standing.leading = lease.Holder == b.contender.Identity
		if b.standing.leading && b.onLead != nil {
			b.onLead()
		}
		keep = s.broken == nil && (b.standing.leading || lease.Holder == "")
	}
	switch {
	case s == b.own && !keep:
		b.own.close()
		b.own = nil
	case s == b.lent && (s.broken != nil || !b.standing.leading && !b.watching):
		b.lent.close()
		b.lent = nil
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Backend) connect(ctx context.Context) (*sql.Conn, error) {
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", b.target.address, err)
	}
	return conn, nil
}
