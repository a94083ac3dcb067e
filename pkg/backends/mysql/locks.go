package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// lockNames are the two named locks of one mutex. They belong to the whole server, hence the hash, and are
// limited to 64 characters.
type lockNames struct{ queue, leader string }

func newLockNames(database, table, mutex string) lockNames {
	sum := sha256.Sum256([]byte(database + "\x00" + table + "\x00" + mutex))
	h := hex.EncodeToString(sum[:8])
	return lockNames{queue: "simba:q:" + h, leader: "simba:" + h}
}

var errNoLock = errors.New("get_lock() answered null: the server gives no named lock")

// lock waits for a named lock for up to patience, in whole seconds: MySQL rounds. held is &s.queue or
// &s.leader. A session must not take a lock twice, because it would have to release it twice.
func (b *Backend) lock(ctx context.Context, s *session, held *bool, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience+b.contender.TTL)
	defer cancel()
	name := b.locks.leader
	if held == &s.queue {
		name = b.locks.queue
	}
	var got sql.NullBool
	err := s.conn.QueryRowContext(ctx, "select get_lock(?, ?)", name, int(patience/time.Second)).Scan(&got)
	if err == nil && !got.Valid {
		err = errNoLock
	}
	b.setLocks(s, err, func() { *held = got.Bool })
	return err
}

// unlockQueue lets the next standby become the head.
func (b *Backend) unlockQueue(ctx context.Context, s *session) error {
	return b.unlock(ctx, s, func() { s.queue = false }, b.locks.queue)
}

// unlockLeader lets whoever waits for it have the leader's lock.
func (b *Backend) unlockLeader(ctx context.Context, s *session) error {
	return b.unlock(ctx, s, func() { s.leader = false }, b.locks.leader)
}

// unlockBoth lets go of both locks, of which the session may have either.
func (b *Backend) unlockBoth(ctx context.Context, s *session) error {
	return b.unlock(ctx, s, func() { s.queue, s.leader = false, false }, b.locks.leader, b.locks.queue)
}

func (b *Backend) unlock(ctx context.Context, s *session, done func(), names ...any) error {
	ctx, cancel := context.WithTimeout(ctx, b.contender.TTL)
	defer cancel()
	_, err := s.conn.ExecContext(ctx, "do release_lock(?)"+strings.Repeat(", release_lock(?)", len(names)-1), names...)
	b.setLocks(s, err, done)
	return err
}

// setLocks notes what became of a session's locks.
func (b *Backend) setLocks(s *session, err error, change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		s.broken = err
		return
	}
	change()
}
