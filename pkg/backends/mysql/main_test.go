package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/testserver"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// patience bounds what a test waits for; nothing takes nearly as long.
const patience = time.Minute

// kinds are the servers that every test runs against.
var kinds = []struct {
	name   string
	start  func(testing.TB, *testserver.SQLOptions) *testserver.SQLServer
	shared *testserver.Shared[*testserver.SQLServer]
}{
	{"MariaDB", testserver.MariaDB, share(testserver.MariaDB)},
	{"MySQL", testserver.MySQL, share(testserver.MySQL)},
}

func share(start func(testing.TB, *testserver.SQLOptions) *testserver.SQLServer) *testserver.Shared[*testserver.SQLServer] {
	return testserver.Share(func(t testing.TB) *testserver.SQLServer {
		return start(t, manyConnections)
	})
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, k := range kinds {
		k.shared.Close()
	}
	os.Exit(code)
}

// manyConnections are also the options of the servers that tests share.
var manyConnections = &testserver.SQLOptions{MaxConnections: 1000}

// store is an empty database on one server.
type store struct {
	*testserver.SQLServer
	database string
	root     *sql.DB
}

// onEach runs a test on a database of its own, on both servers.
func onEach(t *testing.T, test func(*testing.T, *store)) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, newStore(t, k.shared.Get(t)))
		})
	}
}

// onOwn is onEach with servers that the test may disturb.
func onOwn(t *testing.T, o *testserver.SQLOptions, test func(*testing.T, *store)) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, newStore(t, k.start(t, o)))
		})
	}
}

func newStore(t testing.TB, s *testserver.SQLServer) *store {
	database := s.Database(t)
	return &store{s, database, s.DB(t, database)}
}

func (s *store) exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := s.root.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// number returns the integer that a query yields.
func (s *store) number(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	if err := s.root.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// status returns one of the server's own counters.
func (s *store) status(t testing.TB, name string) (n int) {
	t.Helper()
	var ignored string
	if err := s.root.QueryRowContext(t.Context(), "show global status like '"+name+"'").Scan(&ignored, &n); err != nil {
		t.Fatalf("status %s: %v", name, err)
	}
	return n
}

// account creates an account with those rights on the database and returns its URL.
func (s *store) account(t testing.TB, rights, password string) string {
	t.Helper()
	name := "u" + strings.ToLower(rand.Text()[:12])
	s.exec(t, "create user "+name+"@'%' identified by '"+password+"'")
	if rights != "" {
		s.exec(t, "grant "+rights+" on "+s.database+".* to "+name+"@'%'")
	}
	u := url.URL{Scheme: "mysql", User: url.UserPassword(name, password), Host: s.Addr(), Path: "/" + s.database}
	return u.String()
}

func (s *store) location() string { return s.URL(s.database) }

func contender(identity string) election.Contender {
	return election.Contender{Mutex: "orders", Identity: identity, TTL: 2 * time.Second, Transition: 500 * time.Millisecond}
}

func open(t testing.TB, location string, c election.Contender, o *Options) election.Backend {
	t.Helper()
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(u, c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (s *store) open(t testing.TB, identity string) election.Backend {
	t.Helper()
	return open(t, s.location(), contender(identity), nil)
}

// The calls of tests that expect an answer.

func acquire(t testing.TB, b election.Backend) election.Lease {
	t.Helper()
	return answer(t, "acquire", b.Acquire)
}

func observe(t testing.TB, b election.Backend) election.Lease {
	t.Helper()
	return answer(t, "observe", b.Observe)
}

func renew(t testing.TB, b election.Backend, token uint64) election.Lease {
	t.Helper()
	return answer(t, "renew", func(ctx context.Context) (election.Lease, error) { return b.Renew(ctx, token) })
}

func release(t testing.TB, b election.Backend, token uint64) {
	t.Helper()
	answer(t, "release", func(ctx context.Context) (election.Lease, error) { return election.Lease{}, b.Release(ctx, token) })
}

func answer(t testing.TB, call string, f func(context.Context) (election.Lease, error)) election.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := f(ctx)
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	return lease
}

// wins acquires what nobody else holds.
func wins(t testing.TB, b election.Backend, identity string) election.Lease {
	t.Helper()
	lease := acquire(t, b)
	if lease.Holder != identity {
		t.Fatalf("%s acquired %+v; want a grant", identity, lease)
	}
	return lease
}

// wantError checks that a call fails with an error that says all of that and no secret.
func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("error %q shows the password", err)
	}
}

// secret is the password of accounts in tests.
const secret = "s3cr3t/@:%"

// eventually polls for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}
