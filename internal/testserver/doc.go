// Package testserver runs real servers for tests: MariaDB and MySQL.
//
//	server := testserver.MariaDB(t, nil)
//	backend := open(server.URL(server.Database(t)))
//	server.Kill(t)    // as if it had crashed
//	server.Restart(t) // same port, same data
//
// Each call starts a fresh server on a free port of 127.0.0.1, with an empty data
// folder copied from a template that is made once per server version, and ends
// it with the test. Servers also end when the test binary is killed (on Linux),
// and the folders of killed test binaries are removed by the next one. A start
// takes about a second; tests of one package that do not stop, pause or
// reconfigure their server can have one together, see [Share].
//
// # Where servers come from
//
// From the first of these that is there:
//
//   - SIMBA_TEST_MARIADB_URL, SIMBA_TEST_MYSQL_URL: a running server and an
//     account that may do everything, mysql://user:password@host:port. Tests that
//     need a server of their own (to stop it, to give it options) are skipped.
//   - the server's binary on PATH. What is called mysqld but is MariaDB, as on
//     Debian, does not pass for MySQL.
//   - the binary in the folder SIMBA_TEST_ROOT (default /var/cache/simba-servers),
//     a file tree of a newer Debian release than the host's.
//
// With none of them a test is skipped, or fails where CI=true, with the command
// that installs what is missing: install.sh in this folder.
//
// # Adding a server
//
// One file per server: find the binary (locate), fill a data folder (template),
// and say in a launch with which arguments it runs and how to tell that it
// answers. Everything else is in Server.
package testserver
