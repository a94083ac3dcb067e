package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// certificates writes a new certificate that signs itself, and returns the files of the authority, of the
// certificate and of its key.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "db"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))
	ca = writeFile(t, filepath.Join(dir, "ca.pem"), text)
	cert = writeFile(t, filepath.Join(dir, "cert.pem"), text)
	key = writeFile(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return ca, cert, key
}

func TestIdentityFitsEveryStore(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"web-0":                  "web-0",
		"web_0.example:1":        "web_0.example:1",
		"a@@b":                   "a--b",
		"Zürich, 2. Stock":       "Z-rich--2.-Stock",
		"\x00\xff":               "--",
		strings.Repeat("é", 300): strings.Repeat("-", 119),
	} {
		identity := newIdentity(name)
		if !regexp.MustCompile(`_[a-z0-9]{8}$`).MatchString(identity) || strings.TrimSuffix(identity[:len(identity)-8], "_") != want {
			t.Errorf("identity of %q: %q, want %s_ and 8 of a-z0-9", name, identity, want)
		}
		c := election.Contender{Mutex: "m", Identity: identity, TTL: time.Second, Transition: time.Second}
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		if newIdentity(name) == identity {
			t.Errorf("the same identity twice: %q", identity)
		}
	}
}

func TestNameComesFromFlagThenPodThenHost(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Skip("this machine has no name:", err)
	}
	if got := defaultName(environ{"POD_NAME": "web-0"}); got != "web-0" {
		t.Errorf("with POD_NAME: %q", got)
	}
	if got := defaultName(nil); got != host {
		t.Errorf("without POD_NAME: %q, want %q", got, host)
	}
}

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	env := newEnviron([]string{
		"SIMBA_MUTX=m", "SIMBA_FOO=1", "SIMBA_MUTEX=m", "SIMBA_EMPTY=", "OTHER=1",
		// What Kubernetes injects for Services named simba and simba-db.
		"SIMBA_SERVICE_HOST=10.0.0.1", "SIMBA_SERVICE_PORT=80", "SIMBA_SERVICE_PORT_HTTP=80", "SIMBA_PORT=tcp://10.0.0.1:80",
		"SIMBA_PORT_80_TCP=tcp://10.0.0.1:80", "SIMBA_PORT_80_TCP_PROTO=tcp", "SIMBA_PORT_80_TCP_ADDR=10.0.0.1",
		"SIMBA_DB_SERVICE_HOST=10.0.0.2", "SIMBA_DB_PORT=tcp://10.0.0.2:80", "SIMBA_DB_PORT_80_TCP_PORT=80",
		"SIMBA_TEST_MYSQL_URL=mysql://db", "SIMBA_TOKEN=17", "SIMBA_HOLDER=me",
	})
	if diff := cmp.Diff([]string{"SIMBA_FOO", "SIMBA_MUTX"}, env.unknown([]string{"SIMBA_MUTEX"})); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	known := []string{"SIMBA_MUTEX", "SIMBA_TTL", "SIMBA_DIR", "SIMBA_STOP_TIMEOUT"}
	for name, want := range map[string]string{"SIMBA_MUTX": "SIMBA_MUTEX", "SIMBA_FOO": "", "SIMBA_STOPTIMEOUT": "SIMBA_STOP_TIMEOUT", "SIMBA_LTT": "SIMBA_TTL"} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest to %s: %q, want %q", name, got, want)
		}
	}
}

// TestPasswordIsReadAnew rotates the password in each kind of file.
func TestPasswordIsReadAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	for name, c := range map[string]struct {
		flag   string
		format string
		args   []string
	}{
		"password file": {"--password-file", "PW\r\n", []string{"--backend", "mysql://simba@db/app"}},
		"backend file":  {"--backend-file", "mysql://simba:PW@db/app\n", nil},
	} {
		rotate := func(password string) { writeFile(t, path, strings.ReplaceAll(c.format, "PW", password)) }
		rotate("first")
		s := serveSettings()
		st, _, mistakes := s.load(process{args: append(c.args, "--mutex", "m", c.flag, path)})
		if len(mistakes) > 0 {
			t.Fatal(name, mistakes)
		}
		if st.url != "mysql://simba@db/app" {
			t.Errorf("%s: the URL that is passed on: %s", name, st.url)
		}
		for _, want := range []string{"first", "second"} {
			rotate(want)
			if got, err := st.password(); got != want || err != nil {
				t.Errorf("%s: %q, %v, want %q", name, got, err, want)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := st.password(); err == nil || !strings.Contains(err.Error(), c.flag) {
			t.Errorf("%s: a file that is gone: %v", name, err)
		}
	}
}

func TestCertificatesAreReadAnew(t *testing.T) {
	t.Parallel()
	ca, cert, key := certificates(t)
	_, newCert, newKey := certificates(t)
	s := serveSettings()
	st, _, mistakes := s.load(process{args: []string{"--mutex", "m", "--backend", "mysql://simba@db/app", "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key, "--tls-server-name", "other"}})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	before, err := st.tls()
	if err != nil {
		t.Fatal(err)
	}
	if before.ServerName != "other" || before.RootCAs == nil {
		t.Errorf("server name %q, authorities %v", before.ServerName, before.RootCAs)
	}
	for from, to := range map[string]string{newCert: cert, newKey: key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	after, err := st.tls()
	if err != nil {
		t.Fatal(err)
	}
	if cmp.Equal(before.Certificates[0].Certificate, after.Certificates[0].Certificate) {
		t.Error("still the old certificate")
	}
}

func TestPasswordSources(t *testing.T) {
	t.Parallel()
	file := writeFile(t, filepath.Join(t.TempDir(), "pw"), "from-file")
	for _, c := range []struct {
		name, want string
		env        environ
		args       []string
	}{
		{"none", "", nil, []string{"--backend", "mysql://simba@db/app"}},
		{"variable", "from-variable", environ{envPassword: "from-variable"}, []string{"--backend", "mysql://simba@db/app"}},
		{"URL in variable", "p@ss", environ{envBackend: "mysql://simba:p%40ss@db/app"}, nil},
		{"flag before variable", "from-file", environ{envPassword: "from-variable"}, []string{"--backend", "mysql://simba@db/app", "--password-file", file}},
		{"flag before URL in variable", "from-file", environ{envBackend: "mysql://simba:pw@db/app"}, []string{"--password-file", file}},
	} {
		s := serveSettings()
		st, _, mistakes := s.load(process{env: c.env, args: append(c.args, "--mutex", "m")})
		if len(mistakes) > 0 {
			t.Error(c.name, mistakes)
			continue
		}
		got := ""
		if st.password != nil {
			var err error
			if got, err = st.password(); err != nil {
				t.Error(c.name, err)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
