package testserver

import (
	"errors"
	"strings"
	"testing"
)

// MariaDB starts a MariaDB server that ends with the test; nil options are the
// default ones.
func MariaDB(t testing.TB, o *SQLOptions) *SQLServer {
	t.Helper()
	const name = "MariaDB"
	o = orZero(o)
	if s := runningSQL(t, name, "SIMBA_TEST_MARIADB_URL", o); s != nil {
		return s
	}
	p, err := locate("mariadbd", func(version string) bool { return strings.Contains(version, "MariaDB") })
	if err != nil {
		missing(t, name, err)
	}
	installer, err := lookPath("mariadb-install-db")
	if err != nil {
		missing(t, name, errors.Join(errNotInstalled, err))
	}
	args := []string{"--innodb-log-file-size=8M"}
	return startSQL(t, name, p, o, args, func(dir string) error {
		argv := append([]string{installer}, sqlToolArgs(dir)...)
		argv = append(argv, args...)
		argv = append(argv, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
		_, err := run(argv)
		return err
	})
}
