// Package backends opens the store that a URL names.
package backends

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/simba-sidecar/simba-sidecar/pkg/backends/local"
	"github.com/simba-sidecar/simba-sidecar/pkg/backends/mysql"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// Options are what some stores need beside their URL. The zero value, and a nil pointer, are usable; a
// store without passwords or TLS ignores theirs.
type Options struct {
	// Password is called for every new connection, so that a password can be rotated. nil: the one in
	// the URL, if any.
	Password func() (string, error)
	// TLS is called for every new connection, so that certificates can be rotated. nil: no TLS.
	TLS func() (*tls.Config, error)
	// Logger gets what a store's client has to say. nil discards.
	Logger *slog.Logger
}

// supported shows how the URL of each store is written.
const supported = "local:/directory, mysql://user@host:3306/database"

// Open returns the backend of c in the store that rawURL names. It connects to nothing: its errors are
// mistakes in the URL, in c or, for a local directory, in the directory. They never show the URL itself,
// which may hold a password.
func Open(rawURL string, c election.Contender, o *Options) (election.Backend, error) {
	u, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &Options{}
	}
	switch u.Scheme {
	case "local":
		b, err := local.Open(u.Path, c, &local.Options{Logger: o.Logger})
		if err != nil {
			return nil, err // not b: a nil *local.Backend is no nil election.Backend
		}
		return b, nil
	case "mysql":
		return mysql.Open(u, c, &mysql.Options{Password: o.Password, TLS: o.TLS, Logger: o.Logger})
	}
	return nil, unsupported(u.Scheme)
}

// Scheme returns the word for the kind of store that rawURL names, as in logs and metrics: "local",
// "mysql".
func Scheme(rawURL string) (string, error) {
	u, err := parse(rawURL)
	if err != nil {
		return "", err
	}
	return u.Scheme, nil
}

// Location returns where the store is, without user, password and parameters: what two processes have in
// common that contend in the same store, and what may be shown to anybody. Of the parameters only table
// remains, because another table is another place.
func Location(rawURL string) (string, error) {
	u, err := parse(rawURL)
	if err != nil {
		return "", err
	}
	if u.Scheme == "local" {
		return (&url.URL{Scheme: u.Scheme, Path: filepath.Clean(u.Path), OmitHost: true}).String(), nil
	}
	where := url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host), Path: u.Path}
	if u.Port() == "" {
		where.Host = strings.TrimSuffix(where.Host, ":") + ":" + defaultPort(u.Scheme)
	}
	if table := u.Query().Get("table"); table != "" && table != mysql.DefaultTable {
		where.RawQuery = url.Values{"table": {table}}.Encode()
	}
	return where.String(), nil
}

func defaultPort(scheme string) string {
	switch scheme {
	case "mysql":
		return "3306"
	}
	return ""
}

// parse returns rawURL as the URL of a supported store. The texts of net/url's own errors are of no use
// here: they quote the URL.
func parse(rawURL string) (*url.URL, error) {
	if strings.TrimSpace(rawURL) == "" {
		return nil, fmt.Errorf("no backend URL: use one of %s", supported)
	}
	if filepath.IsAbs(rawURL) {
		return nil, fmt.Errorf("backend URL has no scheme: write local:%s", rawURL)
	}
	scheme, _, found := strings.Cut(rawURL, ":")
	if !found {
		return nil, fmt.Errorf("backend URL has no scheme: use one of %s", supported)
	}
	scheme = strings.ToLower(scheme)
	switch scheme {
	case "local", "mysql":
	default:
		return nil, unsupported(scheme)
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil && scheme == "local":
		return nil, errors.New("directory in local: URL is not well formed: write % as %25 and control characters as %0A and so on")
	case scheme == "local":
		return u, checkLocal(u)
	case err != nil, misread(u):
		return nil, fmt.Errorf("%s: URL is not well formed: "+
			"in user name and password write @ as %%40, : as %%3A, / as %%2F, ? as %%3F, # as %%23 and %% as %%25, or give the password in a file", scheme)
	case u.Opaque != "" || u.Host == "":
		return nil, fmt.Errorf("%s: URL names no host: use one of %s", scheme, supported)
	}
	return u, nil
}

// misread says that a password with a reserved character was taken apart: "u:1/2@host" reads as host u,
// port 1. What follows would then show parts of it.
func misread(u *url.URL) bool {
	return u.Fragment != "" || strings.Contains(u.Opaque+u.EscapedPath()+u.RawQuery, "@")
}

func checkLocal(u *url.URL) error {
	switch {
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("local: URL takes no parameters: remove what follows the directory, or write ? as %3F and # as %23 in its name")
	case u.User != nil:
		return errors.New("local: URL takes no user: write local:/directory")
	case u.OmitHost && filepath.Clean(u.Path) != "/":
		return nil
	}
	// "local:dir", "local://dir", "local:///dir": show what they would be.
	path := filepath.Clean("/" + u.Opaque + u.Host + u.Path)
	if path == "/" {
		path = "/directory"
	}
	return fmt.Errorf("local: URL needs the whole path of a directory after one colon: write local:%s if that is the one", path)
}

// unsupported returns the error for a scheme that Open has no case for, with what was perhaps meant.
func unsupported(scheme string) error {
	switch scheme {
	case "postgres", "postgresql", "redis", "rediss", "redis+sentinel", "redis+cluster", "zookeeper", "kubernetes":
		return fmt.Errorf("backend %s is not in this version: use one of %s", scheme, supported)
	case "file", "dir":
		return fmt.Errorf("backend URL has the unknown scheme %s: write local:/directory", scheme)
	case "mariadb", "jdbc":
		return fmt.Errorf("backend URL has the unknown scheme %s: write mysql://user@host:3306/database", scheme)
	}
	// Not quoted: what stands before the first colon may be anything.
	return fmt.Errorf("backend URL has an unknown scheme: use one of %s", supported)
}
