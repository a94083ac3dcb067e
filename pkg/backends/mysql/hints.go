package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"time"
)

// lockNames are the two named locks of one mutex. They belong to the whole server, hence the hash.
type lockNames struct{ queue, leader string }

func newLockNames(database, table, mutex string) lockNames {
	sum := sha256.Sum256([]byte(database + "\x00" + table + "\x00" + mutex))
	h := hex.EncodeToString(sum[:8])
	return lockNames{queue: "simba:q:" + h, leader: "simba:" + h}
}

// leaveQueue lets go of the queue's lock, which a leader has no more use for, so that the next standby
// becomes the head. It is not part of Acquire, whose answer must not wait for it.
func (s *session) leaveQueue(ctx context.Context, b *Backend) error {
	if !s.queue {
		return nil
	}
	_, err := s.conn.ExecContext(ctx, "do release_lock(?)", b.locks.queue)
	return err
}

var _ = sql.ErrNoRows
var _ = errors.New
var _ = time.Second

func (s *session) unlockAll(ctx context.Context, b *Backend) {}

type watched struct{ *Backend }
