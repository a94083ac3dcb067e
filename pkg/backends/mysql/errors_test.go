package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
	"github.com/simba-sidecar/simba-sidecar/internal/testserver"
)

func TestSaysWhatToChangeWhenTheServerRefuses(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		account := s.account(t, "all", secret)
		wrong := func(change func(*url.URL)) string {
			u, err := url.Parse(account)
			if err != nil {
				t.Fatal(err)
			}
			change(u)
			return u.String()
		}
		for _, test := range map[string]struct {
			location string
			want     []string
		}{
			"password": {wrong(func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), secret+"x") }), []string{"Access denied", "--password-file", "SIMBA_PASSWORD"}},
			"user":     {wrong(func(u *url.URL) { u.User = url.UserPassword("nobody", secret) }), []string{"check the user in the backend's URL"}},
			"database": {s.URL("nowhere"), []string{"nowhere", "in the path of the backend's URL"}},
			"rights":   {wrong(func(u *url.URL) { u.Path = "/mysql" }), []string{"grant select, insert, update on `mysql`.`simba_mutex`"}},
			"port":     {s.URLAt("127.0.0.1:1", s.database), []string{"127.0.0.1:1", "check host and port"}},
		} {
			b := open(t, test.location, contender("a"), nil)
			_, err := b.Acquire(t.Context())
			wantError(t, err, test.want...)
		}
	})
}

func TestSaysWhatToChangeWhenTheNameIsUnknown(t *testing.T) {
	t.Parallel()
	b := &Backend{}
	err := b.explain(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "nowhere"}})
	wantError(t, err, "nowhere", "check the host in the backend's URL")
}

func TestReadsThePasswordForEveryConnection(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		account := s.account(t, "all", secret)
		u, err := url.Parse(account)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), "outdated")
		password, failure := "wrong", error(nil)
		b := open(t, u.String(), contender("a"), &Options{Password: func() (string, error) { return password, failure }})
		_, err = b.Acquire(t.Context())
		wantError(t, err, "Access denied")
		password = secret
		wins(t, b, "a")
		release(t, b, 0)
		failure = errors.New("no such file")
		wins(t, s.open(t, "b"), "b")
		observe(t, b)
		_, err = b.Observe(t.Context())
		wantError(t, err, "password: no such file")
	})
}

func TestServerThatIsReadOnlyIsNoLoss(t *testing.T) {
	onOwn(t, nil, func(t *testing.T, s *store) {
		b := open(t, s.account(t, "all", secret), contender("a"), nil)
		lease := wins(t, b, "a")
		s.exec(t, "set global read_only = 1")
		_, err := b.Renew(t.Context(), lease.Token)
		wantError(t, err, "read-only", "must be the primary")
		if got := observe(t, b); got.Holder != "a" {
			t.Errorf("observe on a read-only server: %+v", got)
		}
		s.exec(t, "set global read_only = 0")
		if got := renew(t, b, lease.Token); got.Holder != "a" || got.Token != lease.Token {
			t.Errorf("renewed %+v", got)
		}
	})
}

func TestServerWithoutFreeConnections(t *testing.T) {
	onOwn(t, &testserver.SQLOptions{MaxConnections: 10}, func(t *testing.T, s *store) {
		account := s.account(t, "all", secret)
		for range 10 {
			b := open(t, account, contender("a"), nil)
			if _, err := b.Acquire(t.Context()); err != nil {
				wantError(t, err, "Too many connections", "raise the server's or the account's limit")
				return
			}
		}
		t.Error("there was always another connection")
	})
}

// client returns the options of a client that trusts that authority and shows that certificate.
func client(t *testing.T, caFile string, pair *testserver.Pair, name string) *Options {
	return &Options{TLS: func() (*tls.Config, error) {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, err
		}
		c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: name, MinVersion: tls.VersionTLS12}
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			t.Error("no certificate in " + caFile)
		}
		if pair != nil {
			cert, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
			if err != nil {
				return nil, err
			}
			c.Certificates = []tls.Certificate{cert}
		}
		return c, nil
	}}
}

func TestTLS(t *testing.T) {
	certs := testserver.NewCertificates(t)
	server := &testserver.ServerTLS{CAFile: certs.CAFile, Certificate: certs.Server}
	onOwn(t, &testserver.SQLOptions{TLS: server}, func(t *testing.T, s *store) {
		account := s.account(t, "all", secret)
		demanding := s.account(t, "all", secret)
		u, err := url.Parse(demanding)
		if err != nil {
			t.Fatal(err)
		}
		s.exec(t, "alter user "+u.User.Username()+"@'%' require x509")
		for name, test := range map[string]struct {
			location string
			options  *Options
			want     []string // nil: works
		}{
			"ca":             {account, client(t, certs.CAFile, nil, ""), nil},
			"server name":    {account, client(t, certs.CAFile, nil, testserver.ServerName), nil},
			"client":         {demanding, client(t, certs.CAFile, &certs.Client, ""), nil},
			"wrong ca":       {account, client(t, certs.ForeignCAFile, nil, ""), []string{"--tls-ca"}},
			"wrong name":     {account, client(t, certs.CAFile, nil, "other.test"), []string{"--tls-server-name"}},
			"no client":      {demanding, client(t, certs.CAFile, nil, ""), []string{"Access denied", "--tls-cert"}},
			"no TLS":         {demanding, nil, []string{"Access denied", "--tls-ca"}},
			"foreign client": {demanding, client(t, certs.CAFile, &certs.Foreign, ""), []string{"--tls-cert"}},
			"missing file":   {account, client(t, certs.CAFile+"x", nil, ""), []string{"TLS: ", certs.CAFile + "x"}},
		} {
			b := open(t, test.location, contender("a"), test.options)
			_, err := b.Acquire(t.Context())
			switch {
			case test.want != nil:
				wantError(t, err, test.want...)
			case err != nil:
				t.Errorf("%s: %v", name, err)
			default:
				release(t, b, 0)
			}
		}
	})
}

func TestServerWithoutTLS(t *testing.T) {
	certs := testserver.NewCertificates(t)
	onEach(t, func(t *testing.T, s *store) {
		b := open(t, s.location(), contender("a"), client(t, certs.CAFile, nil, ""))
		_, err := b.Observe(t.Context())
		wantError(t, err, "enable TLS on the server, or drop the --tls-")
	})
}

func TestSilentServerCostsOneCall(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		p, err := faultproxy.New(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		b := open(t, s.URLAt(p.Addr(), s.database), contender("a"), nil)
		lease := wins(t, b, "a")
		p.Blackhole()
		for range 2 { // on an old connection, and on a new one
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			_, err = b.Renew(ctx, lease.Token)
			cancel()
			wantError(t, err, "no answer from "+p.Addr()+" in time")
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v hides the deadline", err)
			}
		}
		p.Pass()
		if got := renew(t, b, lease.Token); got.Token != lease.Token {
			t.Errorf("renewed %+v", got)
		}
	})
}
