package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/backends"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// store is the place where the mutex is: a URL without secrets, and how to read the secrets anew for each
// connection.
type store struct {
	url      string
	origin   string                      // the setting that gave the URL
	password func() (string, error)      // nil: none is configured
	tls      func() (*tls.Config, error) // nil: the backend's own default
}

func (s *store) open(c election.Contender, logger *slog.Logger) (election.Backend, error) {
	return backends.Open(s.url, c, &backends.Options{Password: s.password, TLS: s.tls, Logger: logger})
}

// store returns the store that the settings name, or all that is wrong with it.
func (s *settings) store(env environ) (*store, []error) {
	var mistakes []error
	st, passwords, err := s.location(env)
	if err != nil {
		mistakes = append(mistakes, err)
	}
	if s.passwordFile != "" {
		file := fileSource(s.label("password-file"), s.passwordFile)
		if _, err := file.read(); err != nil {
			mistakes = append(mistakes, err)
		}
		passwords = append(passwords, file)
	}
	if password := env[envPassword]; password != "" {
		passwords = append(passwords, fixedSource(envPassword, password))
	}
	password, err := choose("the password", passwords...)
	if err != nil {
		mistakes = append(mistakes, err)
	}
	mistakes = append(mistakes, s.checkTLS()...)
	if st == nil {
		return nil, mistakes
	}

	if strings.HasPrefix(st.url, "local:") {
		for _, name := range []string{"password-file", "tls-ca", "tls-cert", "tls-key", "tls-server-name"} {
			if origin := s.origin[name]; origin != "" {
				mistakes = append(mistakes, fmt.Errorf("%s means nothing with local:, which has no connection: remove it", origin))
			}
		}
	}
	if password != nil {
		st.password = password.read
	}
	if s.hasTLS() {
		st.tls = s.tlsConfig
	}
	if len(mistakes) == 0 {
		for _, err := range each(st.probe()) {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", st.origin, err))
		}
	}
	return st, mistakes
}

// probe finds mistakes in the URL before anything is started. Opening does not connect.
func (s *store) probe() error {
	anybody := election.Contender{Mutex: "mutex", Identity: "name", TTL: 10 * time.Second, Transition: 6 * time.Second}
	b, err := s.open(anybody, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return b.Close()
}

// location returns the store that is configured, and the password in its URL if there is one.
func (s *settings) location(env environ) (*store, []source, error) {
	var sources []source
	if s.backend != "" {
		sources = append(sources, fixedSource(s.label("backend"), s.backend))
	}
	if s.backendFile != "" {
		sources = append(sources, fileSource(s.label("backend-file"), s.backendFile))
	}
	src, err := choose("the store", sources...)
	switch {
	case err != nil:
		return nil, nil, err
	case src == nil:
		return nil, nil, errors.New("--backend is required: the store of the mutex, such as mysql://user@host:3306/database, or local:/some/dir for processes on one machine")
	}

	text, err := src.read()
	if err != nil {
		return nil, nil, err
	}
	bare, password, err := splitPassword(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", src.origin, err)
	}
	st := &store{url: bare, origin: src.origin}
	if password == "" {
		return st, nil, nil
	}
	if src.origin == "--backend" {
		return nil, nil, fmt.Errorf("--backend must not hold a password, process lists show it: use %s, --backend-file, --password-file or %s", envBackend, envPassword)
	}
	return st, []source{{src.origin, func() (string, error) {
		text, err := src.read()
		if err != nil {
			return "", err
		}
		_, password, err := splitPassword(text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", src.origin, err)
		}
		return password, nil
	}}}, nil
}

// splitPassword takes the password out of a store's URL. Its errors show no part of the URL: where it is
// malformed, any part may be the password.
func splitPassword(text string) (bare, password string, err error) {
	if _, err := backends.Location(text); err != nil {
		return "", "", err
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", "", errors.New("not a URL")
	}
	password, ok := u.User.Password()
	if !ok {
		return text, "", nil
	}
	u.User = url.User(u.User.Username())
	return u.String(), password, nil
}
