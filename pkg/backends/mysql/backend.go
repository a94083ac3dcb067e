package mysql

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// Backend is one contender's view of one row.
type Backend struct {
	contender  election.Contender
	target     target
	options    Options
	statements statements
	locks      lockNames // of use to hints only
	dialer     net.Dialer
	db         *sql.DB

	// What only calls touch; they are never concurrent.
	own     *session // a connection of the calls' own; nil without one
	seen    uint64   // the largest token seen
	tableOK bool     // the table was checked, and nothing went wrong since
	rowOK   bool     // the mutex's row was seen under its exact name, and nothing went wrong since

	running sync.WaitGroup // calls and Watch
	wake    chan struct{}  // tells Watch that what follows has changed

	mu       sync.Mutex // guards the rest
	closed   bool
	ends     map[uint64]context.CancelFunc // end what is running
	started  uint64
	standing standing
	lent     *session           // Watch's connection while calls may use it
	watching bool               // Watch runs
	onLead   context.CancelFunc // ends Watch's wait in the queue when the contender leads; nil if it does not wait there
}

// standing is what the calls' answers said about this contender, for Watch.
type standing struct {
	answers uint64 // how many came
	holder  string // whom the last one named
	leading bool   // it named us
}

// attempts is how often one Acquire tries to take what each time is free by the time it looks: the holder
// released it in between, or the clock showed the exact millisecond in which a lease ends.
const attempts = 3

// Acquire implements election.Backend. It creates the table and the row if they are missing.
func (b *Backend) Acquire(ctx context.Context) (election.Lease, error) {
	return b.call(ctx, func(ctx context.Context, s *session, start time.Time) (election.Lease, error) {
		lease, err := b.take(ctx, s.conn, start)
		if b.tableOK && isServerError(err, errNoTable) { // dropped since
			b.tableOK, b.rowOK = false, false
			lease, err = b.take(ctx, s.conn, start)
		}
		return lease, err
	})
}

func (b *Backend) take(ctx context.Context, c *sql.Conn, start time.Time) (lease election.Lease, err error) {
	if err := b.ensureTable(ctx, c); err != nil {
		return lease, err
	}
	if !b.rowOK {
		if lease, err = b.readOrCreate(ctx, c, start); err != nil {
			return lease, err
		}
	}
	me, ttl, full := b.contender.Identity, b.contender.TTL.Milliseconds(), b.contender.Lease()
	for range attempts {
		ok, token, err := update(ctx, c, b.statements.acquire, b.seen, ttl, full.Milliseconds(), me, b.contender.Mutex)
		if err != nil {
			return lease, err
		}
		if ok {
			return election.Lease{Holder: me, Token: token, Remaining: full}, nil
		}
		if lease, err = b.readOrCreate(ctx, c, start); err != nil {
			return lease, err
		}
		switch lease.Holder {
		case "":
		case me:
			if ok, err := b.extend(ctx, c, lease.Token); ok || err != nil {
				lease.Remaining = full
				return lease, err
			}
			lease = election.Lease{Lapsed: true}
		default:
			return lease, nil
		}
	}
	return lease, nil
}

// Renew implements election.Backend.
func (b *Backend) Renew(ctx context.Context, token uint64) (election.Lease, error) {
	return b.call(ctx, func(ctx context.Context, s *session, start time.Time) (election.Lease, error) {
		if s.queue {
			// A leader has no more use for it. Acquire leaves this to us: its answer must not wait for it.
			if err := b.unlockQueue(ctx, s); err != nil {
				return election.Lease{}, err
			}
		}
		ok, err := b.extend(ctx, s.conn, token)
		if err != nil {
			return election.Lease{}, err
		}
		if ok {
			return election.Lease{Holder: b.contender.Identity, Token: token, Remaining: b.contender.Lease()}, nil
		}
		lease, _, err := b.read(ctx, s.conn, start)
		if lease.Holder == b.contender.Identity && lease.Token == token {
			// The UPDATE is the truth. This read came from a replica, or in the term's last millisecond.
			return election.Lease{Lapsed: true}, err
		}
		return lease, err
	})
}

// Release implements election.Backend. It frees the row first and the leader's lock then, so that whoever
// the lock wakes finds the row free.
func (b *Backend) Release(ctx context.Context, token uint64) error {
	_, err := b.call(ctx, func(ctx context.Context, s *session, _ time.Time) (election.Lease, error) {
		_, _, err := update(ctx, s.conn, b.statements.release, b.contender.Mutex, b.contender.Identity, token, token)
		if isServerError(err, errNoTable) {
			err = nil
		}
		if err == nil && (s.queue || s.leader) {
			_ = b.unlockBoth(ctx, s) // the row is free; should this fail, the locks end with the session
		}
		return election.Lease{}, err
	})
	return err
}

// Observe implements election.Backend. Without a table, or without the row, nobody holds the mutex.
func (b *Backend) Observe(ctx context.Context) (election.Lease, error) {
	return b.call(ctx, func(ctx context.Context, s *session, start time.Time) (election.Lease, error) {
		if !b.tableOK {
			exists, err := b.checkTable(ctx, s.conn)
			if err != nil {
				return election.Lease{}, err
			}
			b.tableOK = exists
		}
		lease, _, err := b.read(ctx, s.conn, start)
		return lease, err
	})
}

// Close implements election.Backend.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	for _, end := range b.ends {
		end()
	}
	b.mu.Unlock()
	b.running.Wait()

	b.mu.Lock()
	defer b.mu.Unlock()
	b.own.close()
	b.lent.close()
	b.own, b.lent = nil, nil
	return b.db.Close()
}

// extend renews the unexpired term with that token, and reports whether there was one.
func (b *Backend) extend(ctx context.Context, c *sql.Conn, token uint64) (bool, error) {
	ok, _, err := update(ctx, c, b.statements.renew, b.contender.TTL.Milliseconds(), b.contender.Lease().Milliseconds(),
		b.contender.Mutex, b.contender.Identity, token)
	if isServerError(err, errNoTable) {
		return false, nil
	}
	return ok, err
}

// update executes one of the conditional UPDATEs. It reports whether the condition held, and the token if
// the statement set one.
func update(ctx context.Context, c *sql.Conn, statement string, args ...any) (ok bool, token uint64, err error) {
	r, err := c.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, 0, err
	}
	n, err := r.RowsAffected()
	id, idErr := r.LastInsertId()
	//nolint:gosec // the driver's int64 carries the column's 64 bits unchanged
	return n > 0, uint64(id), errors.Join(err, idErr)
}

// readOrCreate reads the row, which it inserts if it is missing.
func (b *Backend) readOrCreate(ctx context.Context, c *sql.Conn, start time.Time) (election.Lease, error) {
	lease, exists, err := b.read(ctx, c, start)
	if err != nil || exists {
		return lease, err
	}
	if err := b.createRow(ctx, c); err != nil {
		return lease, err
	}
	lease, exists, err = b.read(ctx, c, start)
	if err == nil && !exists {
		err = b.otherName("others")
	}
	return lease, err
}

// read returns what the row says, and whether there is one. A table that was dropped has none: whoever
// creates it again may take the mutex, so its holder must not go on; nobody released it, though.
func (b *Backend) read(ctx context.Context, c *sql.Conn, start time.Time) (lease election.Lease, exists bool, err error) {
	var r row
	// The lease outlives the call's start by that much more; the clock's last millisecond is not certain.
	sent := max(0, time.Since(start)-time.Millisecond)
	err = c.QueryRowContext(ctx, b.statements.read, b.contender.Mutex).Scan(&r.mutex, &r.owner, &r.transitionAt, &r.token, &r.now)
	if errors.Is(err, sql.ErrNoRows) || isServerError(err, errNoTable) {
		return election.Lease{Lapsed: b.seen > 0}, false, nil
	}
	if err != nil {
		return election.Lease{}, false, b.aboutName(err)
	}
	if r.mutex != b.contender.Mutex {
		return election.Lease{}, true, b.otherName(strconv.Quote(r.mutex))
	}
	b.rowOK = true
	b.seen = max(b.seen, r.token)
	lease, err = r.lease()
	if left := lease.Remaining; left > 0 {
		lease.Remaining = max(left, min(left+sent, b.contender.Lease())) // not more than it can have been, if we are all alike
	}
	return lease, true, err
}

// row is what a read found.
type row struct {
	mutex, owner      string
	transitionAt, now uint64 // milliseconds of the database's clock
	token             uint64
}

var (
	errClock = errors.New("the server's clock reads 0: its unix_timestamp() has ended (before MySQL 8.0.28 it does in January 2038): upgrade the server")
	errOwner = errors.New("the mutex's row has a lease and no owner: set its transition_at to 0")
)

// lease returns what r says, as of its read.
func (r row) lease() (election.Lease, error) {
	switch {
	case r.now == 0:
		return election.Lease{}, errClock
	case r.transitionAt < r.now:
		return election.Lease{Lapsed: r.owner != ""}, nil
	case r.owner == "":
		return election.Lease{}, errOwner
	}
	const most = uint64(math.MaxInt64/time.Millisecond) / 2
	left := max(1, min(r.transitionAt-r.now, most)) // in the very last millisecond nobody can take it either
	return election.Lease{Holder: r.owner, Token: r.token, Remaining: time.Duration(left) * time.Millisecond}, nil
}
