package testserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/testserver"
)

// childVariable makes the test binary the child of TestEndsWithAKilledTestBinary.
const childVariable = "SIMBA_TEST_SERVER_CHILD"

func TestEndsWithItsTest(t *testing.T) {
	forEachStore(t, func(t *testing.T, start starter) {
		var addr, dir string
		record(t, func(tb testing.TB) {
			server := start(tb, nil)
			addr = server.Addr()
			dir = folder(t, addr)
			if _, err := os.Stat(dir); err != nil {
				t.Error(err)
			}
		}).want(t, false, false)
		wantDown(t, addr)
		wantGone(t, dir)
	})
}

func TestEndsWithAKilledTestBinary(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		fmt.Println("serving " + testserver.MariaDB(t, nil).Addr())
		<-t.Context().Done() // until killed
		return
	}
	t.Parallel()
	testserver.MariaDB(t, nil) // or skip

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), childVariable+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var addr string
	for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
		_, addr, _ = strings.Cut(lines.Text(), "serving ")
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // says that it was killed
	if addr == "" {
		t.Fatal("the child has started no server")
	}

	eventually(t, "the server to end with its test binary", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	dir := folder(t, addr)
	testserver.MariaDB(t, nil)
	wantGone(t, dir)
}

func TestFailureShowsTheServersLog(t *testing.T) {
	forEachStore(t, func(t *testing.T, start starter) {
		record(t, func(tb testing.TB) {
			start(tb, &testserver.SQLOptions{Args: []string{"--no-such-option"}})
			t.Error("started with an option that does not exist")
		}).want(t, true, false, "it ended at once: exit status", "no-such-option")

		record(t, func(tb testing.TB) {
			start(tb, nil)
			tb.Errorf("for a reason of its own")
		}).want(t, true, false, "last log lines", "ready for connections")
	})
}

func TestCrashFailsTheTest(t *testing.T) {
	forEachStore(t, func(t *testing.T, start starter) {
		record(t, func(tb testing.TB) {
			server := start(tb, nil)
			shutDown(t, server)
		}).want(t, true, false, "ended by itself")
	})
}

func TestSharedServerIsOneForAllTests(t *testing.T) {
	forEachStore(t, func(t *testing.T, start starter) {
		starts := 0
		var files string
		shared := testserver.Share(func(tb testing.TB) *testserver.SQLServer {
			starts++
			files = tb.TempDir()
			return start(tb, nil)
		})
		var addrs [2]string
		for i := range addrs {
			record(t, func(tb testing.TB) {
				server := shared.Get(tb)
				addrs[i] = server.Addr()
				wantAnswer(t, server)
			}).want(t, false, false)
		}
		if starts != 1 || addrs[0] != addrs[1] {
			t.Errorf("%d starts, addresses %v; want one server", starts, addrs)
		}
		if _, err := os.Stat(files); err != nil {
			t.Errorf("its files did not outlive the first test: %v", err)
		}
		record(t, func(tb testing.TB) { shared.Get(tb).Kill(tb) }).want(t, true, false, "shared with other tests")
		record(t, func(tb testing.TB) { wantAnswer(t, shared.Get(tb)) }).want(t, false, false)

		shared.Close()
		shared.Close()
		wantDown(t, addrs[0])
		wantGone(t, folder(t, addrs[0]))
		wantGone(t, files)
	})
}

func TestSharedServersCrashFailsTheTestThatUsesIt(t *testing.T) {
	t.Parallel()
	shared := testserver.Share(func(tb testing.TB) *testserver.SQLServer { return testserver.MariaDB(tb, nil) })
	t.Cleanup(shared.Close)
	testserver.MariaDB(t, nil) // or skip
	record(t, func(tb testing.TB) { shutDown(t, shared.Get(tb)) }).want(t, true, false, "ended by itself")
}

func TestSharedServerThatCannotStartFailsEachTest(t *testing.T) {
	t.Parallel()
	testserver.MariaDB(t, nil) // or skip
	shared := testserver.Share(func(tb testing.TB) *testserver.SQLServer {
		return testserver.MariaDB(tb, &testserver.SQLOptions{Args: []string{"--no-such-option"}})
	})
	for range 2 {
		record(t, func(tb testing.TB) { shared.Get(tb) }).want(t, true, false, "no-such-option")
	}
	shared.Close()
}

// Not parallel, like the next ones: it changes the environment.
func TestUsesARunningServer(t *testing.T) {
	own := testserver.MariaDB(t, nil)
	mustExec(t, own.DB(t, ""), "CREATE USER boss@'127.0.0.1' IDENTIFIED BY 'p@ss/word'")
	mustExec(t, own.DB(t, ""), "GRANT ALL ON *.* TO boss@'127.0.0.1'")
	u := url.URL{Scheme: "mysql", User: url.UserPassword("boss", "p@ss/word"), Host: own.Addr()}
	t.Setenv("SIMBA_TEST_MARIADB_URL", u.String())

	var name string
	record(t, func(tb testing.TB) {
		server := testserver.MariaDB(tb, nil)
		name = server.Database(tb)
		u.Path = "/" + name
		if got := server.URL(name); got != u.String() {
			t.Errorf("URL is %s, want %s", got, u.String())
		}
		mustExec(t, server.DB(tb, name), "CREATE TABLE t (n INT)")
	}).want(t, false, false)
	var left int
	query(t, own.DB(t, ""), "SELECT count(*) FROM information_schema.schemata WHERE schema_name = '"+name+"'", &left)
	if left != 0 {
		t.Errorf("database %s is left on a server that is not ours", name)
	}

	record(t, func(tb testing.TB) { testserver.MariaDB(tb, nil).Kill(tb) }).
		want(t, false, true, "needs a MariaDB of its own")
	record(t, func(tb testing.TB) { testserver.MariaDB(tb, &testserver.SQLOptions{MaxConnections: 5}) }).
		want(t, false, true, "needs a MariaDB of its own")
	mustExec(t, own.DB(t, ""), "DO 1")

	t.Setenv("SIMBA_TEST_MARIADB_URL", "localhost")
	record(t, func(tb testing.TB) { testserver.MariaDB(tb, nil) }).want(t, true, false, "must be mysql://")
}

func TestMissingServerSkipsAndFailsInCI(t *testing.T) {
	t.Setenv("SIMBA_TEST_ROOT", t.TempDir()) // has no MySQL, and the host's is MariaDB
	t.Setenv("PATH", t.TempDir())
	for _, ci := range []bool{false, true} {
		t.Setenv("CI", fmt.Sprint(ci))
		r := record(t, func(tb testing.TB) { testserver.MySQL(tb, nil) })
		if !r.failed && !r.skipped {
			t.Skip("this host has a MySQL that PATH does not matter for")
		}
		r.want(t, ci, !ci, "sudo internal/testserver/install.sh")
	}
}

func wantAnswer(t *testing.T, server *testserver.SQLServer) {
	t.Helper()
	mustExec(t, server.DB(t, ""), "DO 1")
}

// shutDown ends a server behind its keeper's back.
func shutDown(t *testing.T, server *testserver.SQLServer) {
	t.Helper()
	db := server.DB(t, "")
	_, _ = db.ExecContext(context.WithoutCancel(t.Context()), "SHUTDOWN") // the answer may be lost with the server
	select {
	case <-server.Ended():
	case <-time.After(patience):
		t.Fatal("the server does not end")
	}
}

// folder is where the server at addr lives.
func folder(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("simba-testserver-%d", os.Getuid()), port)
}

func wantGone(t *testing.T, path string) {
	t.Helper()
	eventually(t, path+" to be removed", func() bool { // maybe by another test binary that starts a server now
		_, err := os.Stat(path)
		return errors.Is(err, os.ErrNotExist)
	})
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}
