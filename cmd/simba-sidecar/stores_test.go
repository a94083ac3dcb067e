package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/simba-sidecar/simba-sidecar/internal/testserver"
)

// site is a store for the mutex "orders", empty at first, and what a scenario can see and do there without
// the program's help.
type site struct {
	url string
	// row reads the mutex as anybody may who has a client.
	row func(*testing.T) row
	// stop makes the store useless until it is started. Not on stores that tests have together.
	stop func(*testing.T) (start func())
}

// row is what the store has on a mutex; its zero value is one that nobody has asked for yet.
type row struct {
	owner string // "" after a release
	token uint64
}

// databases are the servers that scenarios run on, beside the local directory.
var databases = map[string]*struct {
	start  func(testing.TB, *testserver.SQLOptions) *testserver.SQLServer
	shared *testserver.Shared[*testserver.SQLServer]
}{
	"MariaDB": {start: testserver.MariaDB, shared: testserver.Share(func(t testing.TB) *testserver.SQLServer { return testserver.MariaDB(t, nil) })},
	"MySQL":   {start: testserver.MySQL, shared: testserver.Share(func(t testing.TB) *testserver.SQLServer { return testserver.MySQL(t, nil) })},
}

// stores runs a scenario on a store of every kind.
func stores(t *testing.T, scenario func(*testing.T, site)) {
	t.Parallel()
	onDirectory(t, scenario)
	for kind, d := range databases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := d.shared.Get(t)
			scenario(t, database(t, s, s.Database(t)))
		})
	}
}

// ownStores is stores for a scenario that stops the store.
func ownStores(t *testing.T, scenario func(*testing.T, site)) {
	t.Parallel()
	onDirectory(t, scenario)
	for kind, d := range databases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := d.start(t, nil)
			scenario(t, database(t, s, s.Database(t)))
		})
	}
}

func onDirectory(t *testing.T, scenario func(*testing.T, site)) {
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		scenario(t, directory(t.TempDir()))
	})
}

// directory is a store of the kind local. It is useless to whoever cannot lock a file in it.
func directory(dir string) site {
	stop := func(t *testing.T) func() { return holdStore(t, dir) }
	return site{url: "local:" + dir, stop: stop, row: func(t *testing.T) row {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, "orders-*.json"))
		if err != nil || len(names) > 1 {
			t.Fatalf("state files %q, %v", names, err)
		}
		if len(names) == 0 {
			return row{}
		}
		text, err := os.ReadFile(names[0])
		var state struct {
			Holder string
			Token  uint64
		}
		if err == nil {
			err = json.Unmarshal(text, &state)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("state file: %v", err)
		}
		return row{state.Holder, state.Token}
	}}
}

// database is a store on a server.
func database(t *testing.T, server *testserver.SQLServer, name string) site {
	db := server.DB(t, name)
	return site{
		url: server.URL(name),
		row: func(t *testing.T) (r row) {
			t.Helper()
			err := db.QueryRowContext(t.Context(), "select owner_id, fencing_token from simba_mutex where mutex = 'orders'").Scan(&r.owner, &r.token)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				t.Fatal(err)
			}
			return r
		},
		stop: func(t *testing.T) func() {
			t.Helper()
			server.Stop(t)
			return func() { server.Restart(t) }
		},
	}
}
