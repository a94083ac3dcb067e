package testserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// answerTimeout bounds one attempt to reach a server that is starting.
const answerTimeout = 5 * time.Second

// SQLOptions say how a MariaDB or MySQL differs from the default. A server that
// was running already cannot be changed: tests with options are skipped on it.
type SQLOptions struct {
	// Args are more arguments for the server. They come last and so win over
	// those that the package gives, such as --performance-schema=OFF.
	Args []string
	// MaxConnections is how many clients may connect; 0 leaves the server's
	// default of 151. The server keeps one more for root.
	MaxConnections int
	// TLS is what the server shows its clients; nil is no TLS.
	TLS *ServerTLS
}

// ServerTLS are a server's files for TLS.
type ServerTLS struct {
	CAFile      string // against which clients' certificates are verified
	Certificate Pair
}

// SQLServer is a MariaDB or MySQL.
type SQLServer struct {
	*Server
	root *url.Userinfo
}

// URL is the address of a database on the server, as root, in the form
// mysql://user@host:port/database.
func (s *SQLServer) URL(database string) string { return s.URLAt(s.addr, database) }

// URLAt is URL with another "host:port", for a proxy in front of the server.
func (s *SQLServer) URLAt(addr, database string) string {
	u := url.URL{Scheme: "mysql", User: s.root, Host: addr, Path: "/" + database}
	return u.String()
}

// Database creates an empty database of a name of its own and returns the name.
// Tests that have a server together are kept apart by it.
func (s *SQLServer) Database(t testing.TB) string {
	t.Helper()
	name := "simba_" + strings.ToLower(rand.Text()[:12])
	db := s.DB(t, "")
	if _, err := db.ExecContext(context.Background(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("create a database on %s: %v", s.name, err)
	}
	if s.place == nil { // others go with their server
		t.Cleanup(func() {
			if _, err := db.ExecContext(context.Background(), "DROP DATABASE "+name); err != nil {
				t.Errorf("drop database %s: %v", name, err)
			}
		})
	}
	return name
}

// DB is a connection pool of root's, closed with the test. Without a database
// ("") statements have to name theirs. It uses TLS if the server has it.
func (s *SQLServer) DB(t testing.TB, database string) *sql.DB {
	t.Helper()
	db, err := openSQL(s.addr, s.root, database)
	if err != nil {
		t.Fatalf("connect to %s: %v", s.name, err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func openSQL(addr string, user *url.Userinfo, database string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName = "tcp", addr, database
	c.User = user.Username()
	c.Passwd, _ = user.Password()
	c.TLSConfig = "preferred" // and unverified: a test's certificate may be a bad one
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// answers is a launch's ready.
func answers(addr string, user *url.Userinfo) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		db, err := openSQL(addr, user, "")
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }()
		return db.PingContext(ctx)
	}
}

// runningSQL returns the server that an environment variable names, or nil.
func runningSQL(t testing.TB, name, variable string, o *SQLOptions) *SQLServer {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "mysql" || u.Port() == "" || u.User == nil {
		t.Fatalf("%s must be mysql://user:password@host:port", variable)
	}
	s := &SQLServer{Server: &Server{name: name, addr: u.Host}, root: u.User}
	if o.MaxConnections != 0 || o.TLS != nil || len(o.Args) > 0 {
		s.control(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	if err := answers(s.addr, s.root)(ctx); err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return s
}

// startSQL runs a server on a copy of the template that initialize makes. args
// are those that only this kind of server knows.
func startSQL(t testing.TB, name string, p program, o *SQLOptions, args []string, initialize func(dir string) error) *SQLServer {
	t.Helper()
	hash := sha256.Sum256([]byte(p.version + strings.Join(p.argv, " ")))
	data, err := template(name+"-"+hex.EncodeToString(hash[:6]), initialize)
	if err != nil {
		t.Fatalf("prepare a data folder for %s: %v", name, err)
	}
	at, err := reserve()
	if err != nil {
		t.Fatalf("find a place for %s: %v", name, err)
	}
	dir := filepath.Join(at.dir, "data")
	if err := os.CopyFS(dir, os.DirFS(data)); err != nil {
		_ = at.free() // the first error is the one to tell
		t.Fatalf("copy the data folder of %s: %v", name, err)
	}
	root := url.User("root")
	how := launch{
		program: p,
		args:    append(append(sqlArgs(dir, at.port), args...), o.args()...),
		ready:   answers(at.addr(), root),
	}
	return &SQLServer{Server: start(t, name, at, how), root: root}
}

// sqlArgs are what both servers have in common. They trade durability against a
// loss of power, which no test causes, for speed; a killed process loses nothing.
func sqlArgs(dir string, port int) []string {
	return append(sqlToolArgs(dir),
		"--port="+strconv.Itoa(port),
		"--bind-address=127.0.0.1",
		"--port-open-timeout=10",
		"--socket=sock", // relative to the data folder: its path may be longer than sockets allow
		"--pid-file=pid",
		"--tmpdir=.", // a MariaDB that starts removes temporary tables from it, other servers' too
		"--skip-name-resolve",
		"--skip-log-bin",
		"--performance-schema=OFF",
		"--innodb-flush-log-at-trx-commit=2", // 0 would lose acknowledged writes on Kill
		"--innodb-doublewrite=OFF",
	)
}

// sqlToolArgs are those that also make the template.
func sqlToolArgs(dir string) []string {
	args := []string{
		"--no-defaults",
		"--datadir=" + dir,
		"--innodb-buffer-pool-size=16M",
		"--innodb-use-native-aio=OFF", // the kernel has few of those for all processes together
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root") // both refuse to be root by accident
	}
	return args
}

func (o *SQLOptions) args() []string {
	var args []string
	if o.MaxConnections != 0 {
		args = append(args, fmt.Sprintf("--max-connections=%d", o.MaxConnections))
	}
	if o.TLS != nil {
		args = append(args,
			"--ssl-ca="+o.TLS.CAFile,
			"--ssl-cert="+o.TLS.Certificate.CertFile,
			"--ssl-key="+o.TLS.Certificate.KeyFile)
	}
	return append(args, o.Args...)
}

// orZero makes a nil pointer to options the default ones.
func orZero(o *SQLOptions) *SQLOptions {
	if o == nil {
		return &SQLOptions{}
	}
	return o
}
