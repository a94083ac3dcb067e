package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ServerName is a host name, beside localhost and 127.0.0.1, that every
// certificate of NewCertificates is good for. It resolves to nothing.
const ServerName = "store.test"

// Pair is a certificate and its key, as PEM files.
type Pair struct {
	CertFile, KeyFile string
}

// Certificates are files for TLS between a server and its clients, good and bad
// ones. Each pair can stand on either side.
type Certificates struct {
	CAFile  string // the authority both sides should trust
	Server  Pair
	Client  Pair
	Expired Pair // from the same authority, over since yesterday

	ForeignCAFile string // another authority
	Foreign       Pair   // and a certificate from it
}

// NewCertificates makes new authorities and certificates in a folder of the test.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir, now := t.TempDir(), time.Now()
	from, to := now.Add(-time.Hour), now.Add(24*time.Hour)
	ours, foreign := newAuthority(t, dir, "ca", to), newAuthority(t, dir, "foreign-ca", to)
	return &Certificates{
		CAFile:        ours.file,
		Server:        ours.issue(t, dir, "server", from, to),
		Client:        ours.issue(t, dir, "client", from, to),
		Expired:       ours.issue(t, dir, "expired", now.Add(-48*time.Hour), now.Add(-24*time.Hour)),
		ForeignCAFile: foreign.file,
		Foreign:       foreign.issue(t, dir, "foreign", from, to),
	}
}

type authority struct {
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, dir, name string, to time.Time) authority {
	t.Helper()
	key := newKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		// Before anything it signs, the expired certificate too.
		NotBefore:             to.Add(-7 * 24 * time.Hour),
		NotAfter:              to,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatalf("create the authority %s: %v", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("create the authority %s: %v", name, err)
	}
	return authority{file: writePEM(t, dir, name+".pem", "CERTIFICATE", der), cert: cert, key: key}
}

// issue makes a certificate whose common name is name.
func (a authority) issue(t testing.TB, dir, name string, from, to time.Time) Pair {
	t.Helper()
	key := newKey(t)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    from,
		NotAfter:     to,
		DNSNames:     []string{"localhost", ServerName},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatalf("issue the certificate %s: %v", name, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("encode the key of %s: %v", name, err)
	}
	return Pair{
		CertFile: writePEM(t, dir, name+".pem", "CERTIFICATE", der),
		KeyFile:  writePEM(t, dir, name+"-key.pem", "PRIVATE KEY", secret),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, dir, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
