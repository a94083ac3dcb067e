package mysql

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// jvmTable is the table as the JVM library's versions made it.
func jvmTable(owner, token, rest string) string {
	return "create table simba_mutex (mutex varchar(66) not null primary key, acquired_at bigint unsigned not null," +
		" ttl_at bigint unsigned not null, transition_at bigint unsigned not null, owner_id " + owner + " not null," +
		" version int unsigned not null" + token + ") " + rest
}

const jvmToken = ", fencing_token bigint unsigned not null default 0"

func TestCreatesTheTableOnFirstUse(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		b := s.open(t, "a")
		if got := observe(t, b); got != (election.Lease{}) {
			t.Errorf("without a table, observe learned %+v; want a free mutex", got)
		}
		if n := s.number(t, "select count(*) from information_schema.tables where table_schema = database()"); n != 0 {
			t.Error("observing has created a table")
		}
		wins(t, b, "a")
	})
}

func TestPrintedSchemaWorks(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		text := Schema("my`locks")
		create, alter, _ := strings.Cut(text, ";")
		s.exec(t, create)
		b := open(t, s.account(t, "select, insert, update", secret)+"?table=my%60locks", contender("a"), nil)
		wins(t, b, "a")
		s.exec(t, "drop table `my``locks`")
		s.exec(t, strings.Replace(jvmTable("char(32)", "", "engine = MyISAM"), "simba_mutex", "`my``locks`", 1))
		_, alter, _ = strings.Cut(alter, "-- alter")
		alter, _, _ = strings.Cut(alter, ";")
		_, err := b.Acquire(t.Context()) // on a connection that has seen the former table
		wantError(t, err, "fencing_token")
		s.exec(t, "alter"+alter)
		wins(t, b, "a")
	})
}

func TestRefusesTablesThatCannotCarryATerm(t *testing.T) {
	long := strings.Repeat("n", 40)
	for name, test := range map[string]struct {
		create   string
		identity string
		want     []string
	}{
		"NoToken":     {jvmTable("varchar(128)", "", "engine = InnoDB"), "a", []string{"no column fencing_token", "add column fencing_token"}},
		"ShortOwner":  {jvmTable("char(32)", jvmToken, "engine = InnoDB"), long, []string{"32 characters in owner_id and the identity has 40", "modify column owner_id varchar(128)"}},
		"Engine":      {jvmTable("varchar(128)", jvmToken, "engine = MyISAM"), "a", []string{"MyISAM", "engine = InnoDB"}},
		"AllOfIt":     {jvmTable("char(32)", "", "engine = MyISAM"), long, []string{"fencing_token", "owner_id", "MyISAM"}},
		"ShortMutex":  {strings.Replace(jvmTable("char(32)", jvmToken, ""), "66", "4", 1), "a", []string{"4 characters in mutex and the mutex has 6", "modify column mutex varchar(66)"}},
		"ForeignKind": {"create table simba_mutex (id int primary key)", "a", []string{"not a table of mutexes", "?table="}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s *store) {
				s.exec(t, test.create)
				b := s.open(t, test.identity)
				_, err := b.Observe(t.Context())
				wantError(t, err, test.want...)
				_, err = b.Acquire(t.Context())
				wantError(t, err, test.want...)
				_, alter, ok := strings.Cut(err.Error(), ": run ")
				if !ok {
					return
				}
				s.exec(t, alter)
				wins(t, b, test.identity)
			})
		})
	}
}

func TestNamesTheRightsThatAreMissing(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		for rights, parts := range map[string][]string{
			"select, insert, update": {"as an administrator run create table if not exists `simba_mutex` (", "grant select, insert, update on `" + s.database},
		} {
			b := open(t, s.account(t, rights, secret), contender("a"), nil)
			_, err := b.Acquire(t.Context())
			wantError(t, err, parts...)
			if strings.Count(err.Error(), "as an administrator") != 1 {
				t.Errorf("%q repeats itself", err)
			}
		}
		wins(t, s.open(t, "a"), "a")
		for _, rights := range []string{"create", "select", "select, insert"} {
			b := open(t, s.account(t, rights, secret), contender("b"), nil)
			release(t, s.open(t, "a"), 0)
			_, err := b.Acquire(t.Context())
			wantError(t, err, "as an administrator run grant select, insert, update on")
		}
	})
}

func TestFirstAcquiresOfManyDoNotCollide(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		const many = 30
		for round := range 5 {
			if round == 3 {
				s.exec(t, "drop table simba_mutex")
			}
			var wait sync.WaitGroup
			var mu sync.Mutex
			won := 0
			for i := range many {
				c := contender(fmt.Sprintf("c%d", i))
				c.Mutex = fmt.Sprintf("m%d", round)
				b := open(t, s.location(), c, nil)
				wait.Go(func() {
					lease, err := b.Acquire(t.Context())
					if err != nil {
						t.Errorf("acquire: %v", err)
					}
					mu.Lock()
					defer mu.Unlock()
					if lease.Holder == c.Identity {
						won++
					}
				})
			}
			wait.Wait()
			if won != 1 {
				t.Errorf("%d of %d won", won, many)
			}
		}
	})
}

func TestTokensGrowThroughEverything(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		a, b := s.open(t, "a"), s.open(t, "b")
		last := uint64(0)
		for _, disturb := range []func(){
			func() {},
			func() { s.exec(t, "delete from simba_mutex") },
			func() { s.exec(t, "drop table simba_mutex") },
			func() { s.exec(t, "update simba_mutex set fencing_token = 3, transition_at = 0") },
		} {
			for range 2 {
				disturb()
				lease := wins(t, a, "a")
				if lease.Token <= last {
					t.Fatalf("token %d after %d", lease.Token, last)
				}
				last = lease.Token
				release(t, a, last)
				if got := observe(t, b); got.Holder != "" || got.Lapsed {
					t.Errorf("after a release: %+v", got)
				}
			}
		}
	})
}
