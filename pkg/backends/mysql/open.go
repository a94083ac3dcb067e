package mysql

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// DefaultTable is the table that contenders written in Java use.
const DefaultTable = "simba_mutex"

const (
	defaultPort   = "3306"
	maxNameLength = 64 // of a database or a table, in characters
)

// Options are the optional parts of a Backend. The zero value, and a nil pointer, are usable.
type Options struct {
	// Password is called for every new connection, so that a password can be rotated. nil: the one in
	// the URL, if any.
	Password func() (string, error)
	// TLS is called for every new connection, so that certificates can be rotated. nil, or a nil
	// configuration: no TLS. Without a ServerName, the server's certificate must name the URL's host.
	TLS func() (*tls.Config, error)
	// Logger gets what the driver has to say, at Debug. nil discards.
	Logger *slog.Logger
}

// Open returns a Backend for the mutex of c in the database that location names:
//
//	mysql://user[:password]@host[:port]/database[?table=simba_mutex][&hints=on|off]
//
// Every part may be percent-encoded. The port is 3306 unless given. With hints, which is the default, the
// Backend is an election.Watcher too.
//
// Open connects to nothing; its errors are about location alone, all of them at once.
func Open(location *url.URL, c election.Contender, o *Options) (election.Backend, error) {
	t, err := parse(location)
	if err != nil {
		return nil, err
	}
	b := &Backend{
		contender:  c,
		target:     t,
		statements: newStatements(t.table),
		dialer:     net.Dialer{KeepAliveConfig: keepAlive()},
		wake:       make(chan struct{}, 1),
		ends:       map[uint64]context.CancelFunc{},
	}
	if o != nil {
		b.options = *o
	}
	if b.options.Logger == nil {
		b.options.Logger = slog.New(slog.DiscardHandler)
	}
	// Nothing is pooled: a connection belongs to whoever opened it, and is never trusted after an error.
	b.db = sql.OpenDB(connector{b})
	b.db.SetMaxIdleConns(-1)
	if !t.hints {
		return b, nil
	}
	b.locks = newLockNames(t.database, t.table, c.Mutex)
	return &watched{b}, nil
}

// target is what a URL says.
type target struct {
	user, password string
	address        string // host:port
	database       string
	table          string
	hints          bool
}

// parse never quotes what may hold a secret.
func parse(u *url.URL) (target, error) {
	t := target{table: DefaultTable, hints: true}
	var errs []error
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if u.Opaque != "" || u.Host == "" {
		mistake("the host is missing: write mysql://user@host/database")
	}
	if u.User.Username() == "" {
		mistake("the user is missing: write mysql://user@host/database")
	}
	t.user = u.User.Username()
	t.password, _ = u.User.Password()

	host, port := u.Hostname(), u.Port()
	if u.Host != "" && host == "" {
		mistake("the host is missing before the port")
	}
	if port == "" {
		port = defaultPort
	} else if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		mistake("port %s is not between 1 and 65535", port)
	}
	t.address = net.JoinHostPort(host, port)

	escaped := strings.TrimPrefix(u.EscapedPath(), "/")
	database, err := url.PathUnescape(escaped)
	switch {
	case escaped == "":
		mistake("the database is missing: write mysql://user@host/database")
	case err != nil:
		mistake("the database's name is not percent-encoded correctly")
	case strings.Contains(escaped, "/"):
		mistake(`"/%s" names more than one database: write a slash within a name as %%2F`, database)
	default:
		if err := checkName("database", database); err != nil {
			errs = append(errs, err)
		}
	}
	t.database = database
	if u.Fragment != "" {
		mistake(`the URL must not contain "#": write it as %%23`)
	}
	return t, errors.Join(append(errs, t.parseQuery(u.RawQuery))...)
}

func (t *target) parseQuery(raw string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return errors.New("the URL's query is not percent-encoded correctly")
	}
	var errs []error
	for key, values := range query {
		if len(values) > 1 {
			errs = append(errs, fmt.Errorf("query parameter %q is given %d times: give it once", key, len(values)))
		}
		switch value := values[0]; key {
		case "table":
			t.table = value
			errs = append(errs, checkName("table", value))
		case "hints":
			t.hints = value == "on"
			if value != "on" && value != "off" {
				errs = append(errs, fmt.Errorf("hints=%q: use on or off", value))
			}
		default:
			errs = append(errs, fmt.Errorf("unknown query parameter %q: the known ones are hints and table", key))
		}
	}
	return errors.Join(errs...)
}

// checkName refuses what no server accepts as a name.
func checkName(what, name string) error {
	switch n := utf8.RuneCountInString(name); {
	case name == "":
		return fmt.Errorf("the %s's name is empty", what)
	case n > maxNameLength:
		return fmt.Errorf("the %s's name has %d characters, the limit is %d", what, n, maxNameLength)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0) || strings.HasSuffix(name, " "):
		return fmt.Errorf("%q cannot be the name of a %s", name, what)
	}
	return nil
}
