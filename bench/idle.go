package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// idleStandbys is how many standbys are measured together: what one costs is too little to be measured.
const idleStandbys = 5

// idle is what contenders need while nothing happens.
type idle struct {
	leader, standby usage // standby is the mean of all, its memory the largest
	counted         bool  // statements are
}

type usage struct {
	rss, anonymous     int     // bytes
	cpu                float64 // seconds per second
	statements, writes float64 // per minute
	connections        float64 // new ones per minute
}

// measureIdle lets a leader alone for window, and then a leader and standbys; what the store counts more
// the second time is the standbys'. No client asks them anything meanwhile. db is nil for a store
// without statements.
func measureIdle(ctx context.Context, o *sidecarOptions, mutex string, db *sql.DB, window time.Duration) (idle, error) {
	var all []*sidecar
	defer func() {
		for _, s := range all {
			s.close()
		}
	}()
	add := func() error {
		s, err := o.start(ctx, mutex, fmt.Sprintf("idle%d", len(all)), func(time.Time) {})
		if err != nil {
			return err
		}
		all = append(all, s)
		if len(all) == 1 {
			err = s.until(ctx, "leads", func() bool { return s.status == "leader" })
		} else {
			err = s.ready(ctx)
		}
		s.unfollow()
		return err
	}
	if err := add(); err != nil {
		return idle{}, err
	}
	alone, err := overWindow(ctx, all, db, window)
	if err != nil {
		return idle{}, err
	}
	for range idleStandbys {
		if err := add(); err != nil {
			return idle{}, err
		}
	}
	together, err := overWindow(ctx, all, db, window)
	if err != nil {
		return idle{}, err
	}
	i := idle{leader: alone[0], counted: db != nil}
	for _, u := range together[1:] {
		i.standby.rss = max(i.standby.rss, u.rss)
		i.standby.anonymous = max(i.standby.anonymous, u.anonymous)
		i.standby.cpu += u.cpu / idleStandbys
	}
	i.standby.statements = (together[0].statements - alone[0].statements) / idleStandbys
	i.standby.writes = (together[0].writes - alone[0].writes) / idleStandbys
	i.standby.connections = (together[0].connections - alone[0].connections) / idleStandbys
	return i, nil
}

// overWindow measures each sidecar; what the store has counted for all of them is in the first.
func overWindow(ctx context.Context, all []*sidecar, db *sql.DB, window time.Duration) ([]usage, error) {
	if err := sleep(ctx, window/10); err != nil { // what belongs to the start is over
		return nil, err
	}
	used := make([]usage, len(all))
	cpu := make([]time.Duration, len(all))
	for i, s := range all {
		var err error
		if cpu[i], err = s.cpu(); err != nil {
			return nil, err
		}
	}
	before, err := statements(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, window); err != nil {
		return nil, err
	}
	after, err := statements(ctx, db)
	if err != nil {
		return nil, err
	}
	perMinute := float64(time.Minute) / float64(window)
	used[0].statements = float64(after.all-before.all-1) * perMinute // 1: our own look at the counters
	used[0].writes = float64(after.writes-before.writes) * perMinute
	used[0].connections = float64(after.connections-before.connections) * perMinute
	for i, s := range all {
		now, err := s.cpu()
		if err != nil {
			return nil, err
		}
		used[i].cpu = (now - cpu[i]).Seconds() / window.Seconds()
		if _, _, err := s.get(ctx, s.url+"/metrics"); err != nil { // a scrape takes memory for good
			return nil, err
		}
		if used[i].rss, used[i].anonymous, err = s.memory(); err != nil {
			return nil, err
		}
	}
	return used, nil
}

// counters are the server's own.
type counters struct{ all, writes, connections int }

func statements(ctx context.Context, db *sql.DB) (c counters, err error) {
	if db == nil {
		return c, nil
	}
	rows, err := db.QueryContext(ctx, "show global status")
	if err != nil {
		return c, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return c, err
		}
		var number int
		switch strings.ToLower(name) {
		case "questions", "connections", "com_update", "com_insert", "com_delete", "com_replace":
			if _, err := fmt.Sscan(value, &number); err != nil {
				return c, fmt.Errorf("%s: %w", name, err)
			}
		}
		switch strings.ToLower(name) {
		case "questions":
			c.all = number
		case "connections":
			c.connections = number
		default:
			c.writes += number
		}
	}
	return c, rows.Err()
}
