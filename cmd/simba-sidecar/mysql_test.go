package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/testserver"
)

// TestRotatedPasswordServesTheNextConnection uses all that a database can ask for: a certificate from both
// sides, and a password that changes while the sidecar leads.
func TestRotatedPasswordServesTheNextConnection(t *testing.T) {
	t.Parallel()
	files := testserver.NewCertificates(t)
	server := testserver.MariaDB(t, &testserver.SQLOptions{TLS: &testserver.ServerTLS{CAFile: files.CAFile, Certificate: files.Server}})
	name := server.Database(t)
	db := server.DB(t, "")
	account := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	account("CREATE USER simba IDENTIFIED BY 'first' REQUIRE X509")
	account("GRANT ALL ON `" + name + "`.* TO simba")
	password := writeFile(t, filepath.Join(t.TempDir(), "password"), "first\n")

	leader := startSidecar(t, t.TempDir(), "--backend", "mysql://simba@"+server.Addr()+"/"+name, "--password-file", password,
		"--tls-ca", files.CAFile, "--tls-cert", files.Client.CertFile, "--tls-key", files.Client.KeyFile, "--tls-server-name", testserver.ServerName)
	before := leader.leads()

	account("ALTER USER simba IDENTIFIED BY 'second' REQUIRE X509")
	writeFile(t, password, "second\n")
	account("KILL USER simba") // ends its connections
	cut := time.Now()
	eventually(t, "leading for longer than what was granted before", func() bool {
		a := leader.ask()
		return a.Leader && a.ExpiresAt.After(cut.Add(ttl+time.Second))
	})
	if after := leader.leads(); after.Token != before.Token {
		t.Errorf("a new term, with token %d after %d", after.Token, before.Token)
	}
	leader.send(syscall.SIGTERM)
	if code := leader.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if log := leader.log(); strings.Contains(log, "first") || strings.Contains(log, "second") {
		t.Errorf("the log shows a password:\n%s", log)
	}
}
