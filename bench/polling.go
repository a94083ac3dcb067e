package main

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// The published defaults of the JVM library Simba, and over how much a contender's poll is spread around
// the end of the lease that it has seen.
const (
	pollingTTL        = 10 * time.Second
	pollingTransition = 6 * time.Second
	pollEarliest      = -200 * time.Millisecond
	pollLatest        = time.Second
)

// poller contends for a row of MySQL as a JVM does: the holder renews when its ttl is over, everybody else
// looks again when the lease that it saw has run out. Nothing tells it of a release.
type poller struct {
	db        *sql.DB
	mutex, id string
	lead      func(time.Time)

	stop       context.CancelFunc
	stopped    chan struct{}
	seen       chan struct{} // closed once it knows the holder
	statements atomic.Int64
	held       time.Time // start of the last statement that gave it the lease; to be read after stopped
}

// pollingSchema makes the table of the sidecar's wire format.
const pollingSchema = `create table simba_mutex (
	mutex varchar(66) primary key, acquired_at bigint unsigned not null, ttl_at bigint unsigned not null,
	transition_at bigint unsigned not null, owner_id varchar(128) not null, version int unsigned not null,
	fencing_token bigint unsigned not null default 0)`

// sqlNow is the server's clock in milliseconds.
const sqlNow = `cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)`

const (
	pollingCreate  = `insert ignore into simba_mutex values (?, 0, 0, 0, '', 0, 0)`
	pollingContend = `update simba_mutex set
	fencing_token = if(owner_id = ?, fencing_token, fencing_token + 1), acquired_at = if(owner_id = ?, acquired_at, ` + sqlNow + `),
	ttl_at = ` + sqlNow + ` + ?, transition_at = ` + sqlNow + ` + ?, owner_id = ?, version = version + 1
	where mutex = ? and (transition_at < ` + sqlNow + ` or owner_id = ?)`
	pollingLook    = `select owner_id, ttl_at, transition_at, ` + sqlNow + ` from simba_mutex where mutex = ?`
	pollingRelease = `update simba_mutex set acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '', version = version + 1
	where mutex = ? and owner_id = ?`
)

func startPoller(ctx context.Context, db *sql.DB, mutex, id string, lead func(time.Time)) (*poller, error) {
	if _, err := db.ExecContext(ctx, pollingCreate, mutex); err != nil {
		return nil, err
	}
	p := &poller{db: db, mutex: mutex, id: id, lead: lead, stopped: make(chan struct{}), seen: make(chan struct{})}
	ctx, p.stop = context.WithCancel(ctx)
	go p.run(ctx)
	return p, nil
}

func (p *poller) run(ctx context.Context) {
	defer close(p.stopped)
	seen := sync.OnceFunc(func() { close(p.seen) })
	for leading := false; ; {
		start := time.Now()
		wait, mine, err := p.contend(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait = pollingTTL
		default:
			if mine {
				p.held = start
			}
			if mine && !leading {
				p.lead(time.Now())
			}
			leading = mine
			seen()
		}
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// contend takes, renews or looks at the row, and returns when to do so again.
func (p *poller) contend(ctx context.Context) (wait time.Duration, mine bool, err error) {
	p.statements.Add(2)
	lease := pollingTTL + pollingTransition
	if _, err := p.db.ExecContext(ctx, pollingContend,
		p.id, p.id, pollingTTL.Milliseconds(), lease.Milliseconds(), p.id, p.mutex, p.id); err != nil {
		return 0, false, err
	}
	var owner string
	var ttlAt, transitionAt, now int64
	if err := p.db.QueryRowContext(ctx, pollingLook, p.mutex).Scan(&owner, &ttlAt, &transitionAt, &now); err != nil {
		return 0, false, err
	}
	if owner == p.id {
		return time.Duration(ttlAt-now) * time.Millisecond, true, nil
	}
	spread := pollEarliest + rand.N(pollLatest-pollEarliest)
	return max(0, time.Duration(transitionAt-now)*time.Millisecond+spread), false, nil
}

func (p *poller) ready(ctx context.Context) error {
	select {
	case <-p.seen:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *poller) resign(ctx context.Context) (ending, error) {
	asked := time.Now()
	p.close()
	free := time.Now()
	_, err := p.db.ExecContext(ctx, pollingRelease, p.mutex, p.id)
	return ending{asked, free}, err
}

func (p *poller) crash(context.Context) (ending, error) {
	asked := time.Now()
	p.close()
	return ending{asked, p.held.Add(pollingTTL + pollingTransition)}, nil
}

func (p *poller) calls() int64 { return p.statements.Load() }

func (p *poller) close() {
	p.stop()
	<-p.stopped
}
