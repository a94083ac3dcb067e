package mysql

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/backends/backendtest"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			h := newStore(t, k.shared.Get(t)).harness(t)
			h.Restart = func(t testing.TB) (backendtest.Harness, func(testing.TB)) {
				s := newStore(t, k.start(t, manyConnections))
				return s.harness(t), s.Restart
			}
			h.LoseData = func(t testing.TB) (backendtest.Harness, func(testing.TB)) {
				s := newStore(t, k.shared.Get(t))
				return s.harness(t), func(t testing.TB) { s.exec(t, "drop table simba_mutex") }
			}
			backendtest.Run(t, h)
		})
	}
}

func (s *store) harness(t testing.TB) backendtest.Harness {
	return backendtest.Harness{
		Addr:             s.Addr(),
		Open:             s.opener(""),
		OpenWithoutHints: s.opener("?hints=off"),
		Now: func(ctx context.Context) (time.Time, error) {
			var ms int64
			err := s.root.QueryRowContext(ctx, "select floor(unix_timestamp(current_timestamp(3)) * 1000)").Scan(&ms)
			return time.UnixMilli(ms), err
		},
		DeleteMutex: func(t testing.TB, mutex string) {
			s.exec(t, "delete from simba_mutex where mutex = ?", mutex)
		},
		Lapses: true,
		Collisions: []backendtest.Collision{
			s.collision(t, "case", "orders", "Orders", "utf8mb4"),
			s.collision(t, "spaces", "orders", "orders ", "utf8mb4"),
			s.collision(t, "foreign", "??", "日本", "latin1"),
		},
	}
}

func (s *store) opener(query string) func(addr string, c election.Contender) (election.Backend, error) {
	return func(addr string, c election.Contender) (election.Backend, error) {
		u, err := url.Parse(s.URLAt(addr, s.database) + query)
		if err != nil {
			return nil, err
		}
		return Open(u, c, nil)
	}
}

// collision is about a table as a server's defaults may make it.
func (s *store) collision(t testing.TB, name, first, second, charset string) backendtest.Collision {
	table := "collision_" + name
	s.exec(t, "create table "+table+" (mutex varchar(66) not null primary key, acquired_at bigint unsigned not null,"+
		" ttl_at bigint unsigned not null, transition_at bigint unsigned not null, owner_id varchar(128) not null,"+
		" version int unsigned not null"+jvmToken+") default charset = "+charset)
	if charset == "utf8mb4" {
		s.exec(t, "alter table "+table+" convert to character set utf8mb4 collate utf8mb4_general_ci")
	}
	return backendtest.Collision{
		Name: name, First: first, Second: second, Cause: "collation", Open: s.opener("?table=" + table),
	}
}
