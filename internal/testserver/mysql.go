package testserver

import (
	"os"
	"strings"
	"testing"
)

// rootOverTCP lets root in from where tests come from; of itself, MySQL knows
// root at "localhost" only, which without name resolution is no TCP address.
const rootOverTCP = `CREATE USER 'root'@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
`

// MySQL starts a MySQL server that ends with the test; nil options are the
// default ones.
func MySQL(t testing.TB, o *SQLOptions) *SQLServer {
	t.Helper()
	const name = "MySQL"
	o = orZero(o)
	if s := runningSQL(t, name, "SIMBA_TEST_MYSQL_URL", o); s != nil {
		return s
	}
	p, err := locate("mysqld", func(version string) bool { return !strings.Contains(version, "MariaDB") })
	if err != nil {
		missing(t, name, err)
	}
	args := []string{
		"--secure-file-priv=NULL", // the built-in folder is not there, and then it does not start
		"--mysqlx=OFF",            // a second port
		"--auto-generate-certs=OFF",
		"--innodb-redo-log-capacity=16M",
	}
	if p.prefix != "" {
		args = append(args, "--basedir="+p.prefix)
	}
	return startSQL(t, name, p, o, args, func(dir string) error {
		script := dir + ".sql"
		if err := os.WriteFile(script, []byte(rootOverTCP), 0o600); err != nil {
			return err
		}
		defer func() { _ = os.Remove(script) }()
		argv := append(sqlToolArgs(dir), args...)
		argv = append(argv, "--innodb-doublewrite=OFF", "--initialize-insecure", "--init-file="+script)
		_, err := run(p.command(argv...))
		return err
	})
}
