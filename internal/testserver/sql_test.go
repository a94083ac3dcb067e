package testserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/internal/testserver"
)

// patience bounds what must happen soon; only a failing test waits for it.
const patience = 30 * time.Second

type starter func(testing.TB, *testserver.SQLOptions) *testserver.SQLServer

func forEachStore(t *testing.T, test func(*testing.T, starter)) {
	t.Parallel()
	for name, start := range map[string]starter{"MariaDB": testserver.MariaDB, "MySQL": testserver.MySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start)
		})
	}
}

func TestAnswersAtItsURL(t *testing.T) {
	forEachStore(t, func(t *testing.T, start starter) {
		server := start(t, nil)
		name := server.Database(t)
		u, err := url.Parse(server.URL(name))
		if err != nil {
			t.Fatal(err)
		}
		if u.Scheme != "mysql" || u.Host != server.Addr() {
			t.Errorf("URL is %s, want mysql://…@%s/…", u, server.Addr())
		}
		db := open(t, u, nil)
		var version, database string
		query(t, db, "SELECT version(), database()", &version, &database)
		if got, want := strings.Contains(version, "MariaDB"), strings.HasSuffix(t.Name(), "MariaDB"); got != want {
			t.Errorf("version is %s", version)
		}
		if database != name {
			t.Errorf("connected to database %q, want %q", database, name)
		}
		if other := server.Database(t); other == name {
			t.Errorf("two databases with the name %s", name)
		}
	})
}

func TestDataAndPortOutliveStopAndKill(t *testing.T) {
	forEachStore(t, func(t *testing.T, start starter) {
		server := start(t, nil)
		addr, name := server.Addr(), server.Database(t)
		db := server.DB(t, name)
		mustExec(t, db, "CREATE TABLE t (n INT PRIMARY KEY)")
		for i, end := range []func(testing.TB){server.Stop, server.Kill, func(testing.TB) {}} {
			mustExec(t, db, "INSERT INTO t VALUES (?)", i)
			end(t)
			if i < 2 {
				wantDown(t, addr)
			}
			server.Restart(t)
			if server.Addr() != addr {
				t.Errorf("address is %s after a restart, was %s", server.Addr(), addr)
			}
			db = server.DB(t, name)
			var rows int
			query(t, db, "SELECT count(*) FROM t", &rows)
			if rows != i+1 {
				t.Errorf("%d rows after %d restarts, want %d", rows, i+1, i+1)
			}
		}
	})
}

func TestAnswersNothingWhilePaused(t *testing.T) {
	forEachStore(t, func(t *testing.T, start starter) {
		server := start(t, nil)
		db := server.DB(t, "")
		mustExec(t, db, "DO 1")

		server.Pause(t)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := db.ExecContext(ctx, "DO 1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a paused server answered: %v", err)
		}
		conn, err := net.Dial("tcp", server.Addr())
		if err != nil {
			t.Errorf("the kernel accepts for a paused server, but: %v", err)
		} else {
			_ = conn.Close()
		}
		server.Resume(t)
		mustExec(t, db, "DO 1")

		server.Pause(t)
		server.Stop(t) // a paused server can be stopped, too
		wantDown(t, server.Addr())
	})
}

func TestOptionsReachTheServer(t *testing.T) {
	forEachStore(t, func(t *testing.T, start starter) {
		server := start(t, &testserver.SQLOptions{
			MaxConnections: 17,
			Args:           []string{"--performance-schema=ON", "--innodb-lock-wait-timeout=7"},
		})
		var got struct{ Connections, Schema, Wait int }
		query(t, server.DB(t, ""), "SELECT @@max_connections, @@performance_schema, @@innodb_lock_wait_timeout",
			&got.Connections, &got.Schema, &got.Wait)
		want := struct{ Connections, Schema, Wait int }{17, 1, 7}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("settings (-want +got):\n%s", diff)
		}
	})
}

func TestClientsAndServerVerifyEachOther(t *testing.T) {
	certs := testserver.NewCertificates(t)
	trusted, foreign := pool(t, certs.CAFile), pool(t, certs.ForeignCAFile)
	forEachStore(t, func(t *testing.T, start starter) {
		server := start(t, &testserver.SQLOptions{
			TLS: &testserver.ServerTLS{CAFile: certs.CAFile, Certificate: certs.Server},
		})
		root := server.DB(t, "")
		mustExec(t, root, "CREATE USER app IDENTIFIED BY 'secret' REQUIRE X509")
		u := &url.URL{Host: server.Addr(), User: url.UserPassword("app", "secret")}

		for _, c := range []struct {
			name   string
			config *tls.Config
			want   string // in the error; "" for none
		}{
			{"own certificate", &tls.Config{RootCAs: trusted, Certificates: pairs(t, certs.Client)}, ""},
			{"by another name", &tls.Config{RootCAs: trusted, Certificates: pairs(t, certs.Client), ServerName: testserver.ServerName}, ""},
			{"by a wrong name", &tls.Config{RootCAs: trusted, Certificates: pairs(t, certs.Client), ServerName: "other.test"}, "not other.test"},
			{"no certificate", &tls.Config{RootCAs: trusted}, "Access denied"},
			{"no TLS", nil, "Access denied"},
			{"client trusts others", &tls.Config{RootCAs: foreign, Certificates: pairs(t, certs.Client)}, "unknown authority"},
			{"foreign client", &tls.Config{RootCAs: trusted, Certificates: pairs(t, certs.Foreign)}, " connection"},
			{"expired client", &tls.Config{RootCAs: trusted, Certificates: pairs(t, certs.Expired)}, " connection"},
		} {
			wantPing(t, c.name, open(t, u, c.config), c.want)
		}
	})
}

func TestExpiredServerCertificateIsServed(t *testing.T) {
	certs := testserver.NewCertificates(t)
	trusted := pool(t, certs.CAFile)
	forEachStore(t, func(t *testing.T, start starter) {
		server := start(t, &testserver.SQLOptions{
			TLS: &testserver.ServerTLS{CAFile: certs.CAFile, Certificate: certs.Expired},
		})
		u := &url.URL{Host: server.Addr(), User: url.User("root")}
		wantPing(t, "verifying client", open(t, u, &tls.Config{RootCAs: trusted}), "expired")
		wantPing(t, "root helper", server.DB(t, ""), "")
	})
}

func wantPing(t *testing.T, name string, db *sql.DB, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := db.PingContext(ctx)
	if want == "" && err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: error %v, want one with %q", name, err, want)
	}
}

func open(t *testing.T, u *url.URL, config *tls.Config) *sql.DB {
	t.Helper()
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.TLS = config
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func mustExec(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func query(t *testing.T, db *sql.DB, statement string, into ...any) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), statement).Scan(into...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func wantDown(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial %s: %v, want connection refused", addr, err)
	}
}

func pool(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(text) {
		t.Fatalf("no certificate in %s", file)
	}
	return p
}

func pairs(t *testing.T, p testserver.Pair) []tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return []tls.Certificate{pair}
}
