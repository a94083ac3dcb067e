package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/testserver"
)

// databases are the servers that scenarios run on, beside the local directory.
var databases = map[string]*struct {
	start  func(testing.TB, *testserver.SQLOptions) *testserver.SQLServer
	shared *testserver.Shared[*testserver.SQLServer]
}{
	"MariaDB": {start: testserver.MariaDB, shared: testserver.Share(func(t testing.TB) *testserver.SQLServer { return testserver.MariaDB(t, nil) })},
	"MySQL":   {start: testserver.MySQL, shared: testserver.Share(func(t testing.TB) *testserver.SQLServer { return testserver.MySQL(t, nil) })},
}

// onEachStore runs a scenario on every kind of store, with an empty store each time.
func onEachStore(t *testing.T, scenario func(t *testing.T, store string)) {
	t.Parallel()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		scenario(t, t.TempDir())
	})
	for kind, d := range databases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := d.shared.Get(t)
			scenario(t, s.URL(s.Database(t)))
		})
	}
}

// onEachDatabase is for scenarios that stop the server, or look into it.
func onEachDatabase(t *testing.T, scenario func(t *testing.T, server *testserver.SQLServer, name string)) {
	t.Parallel()
	for kind, d := range databases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := d.start(t, nil)
			scenario(t, s, s.Database(t))
		})
	}
}

// owner reads the row as anybody may who has a client.
func owner(t *testing.T, db *sql.DB) (identity string) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), "select owner_id from simba_mutex where mutex = 'orders'").Scan(&identity)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
	return identity
}

// TestTheRowIsFreeOnlyOnceNothingSaysLeader looks at the old leader at the first moment in which somebody
// else could take the mutex.
func TestTheRowIsFreeOnlyOnceNothingSaysLeader(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, server *testserver.SQLServer, name string) {
		d, db := dirs(t, "old"), server.DB(t, name)
		old := startSidecar(t, server.URL(name), "--dir", d[0])
		before := old.leads()
		eventually(t, "a leader file", func() bool { return exists(filepath.Join(d[0], "leader")) })
		states := events(t, old)
		old.send(syscall.SIGTERM)
		eventually(t, "a free row", func() bool { return owner(t, db) != before.Identity })
		if exists(filepath.Join(d[0], "leader")) {
			t.Error("the row is free, and the old leader's file says that it leads")
		}
		if a := old.ask(); a.code == http.StatusOK {
			t.Error("the row is free, and the old leader answers 200")
		}
		if code := old.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if told := states(); len(told) < 2 {
			t.Errorf("its clients were told %q", told)
		}
	})
}

// TestStoreThatIsDownForThreeLeases stops the real server under three sidecars.
func TestStoreThatIsDownForThreeLeases(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, server *testserver.SQLServer, name string) {
		var members []*sidecar
		for i := range 3 {
			members = append(members, startSidecar(t, server.URL(name), "--name", fmt.Sprint("web-", i)))
		}
		leading := func() (leaders []*sidecar) {
			for _, m := range members {
				if m.ask().code == http.StatusOK {
					leaders = append(leaders, m)
				}
			}
			if len(leaders) > 1 {
				t.Fatalf("%d lead", len(leaders))
			}
			return leaders
		}
		eventually(t, "one leader", func() bool { return len(leading()) == 1 })
		before := leading()
		if len(before) != 1 {
			t.Fatal("the leader has gone")
		}
		token := before[0].ask().Token

		server.Stop(t)
		down := time.Now()
		for lease := ttl + transition; time.Since(down) < 3*lease; {
			leaders := leading()
			if time.Since(down) > ttl+time.Second && len(leaders) != 0 { // a second, in case that the answers were slow
				t.Fatalf("%s leads %v after the store went away", leaders[0].url, time.Since(down))
			}
			for _, m := range members {
				if code, body := get(t, http.MethodGet, m.url+"/livez"); code != http.StatusOK {
					t.Fatalf("/livez of %s: %d %s", m.url, code, body)
				}
			}
		}
		server.Restart(t)
		eventually(t, "one leader again", func() bool { return len(leading()) == 1 })
		if after := leading(); len(after) != 1 || after[0].ask().Token <= token {
			t.Errorf("led by %v, want a token above %d", after, token)
		}
	})
}
