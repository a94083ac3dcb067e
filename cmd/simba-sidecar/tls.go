package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

func (s *settings) hasTLS() bool {
	return s.tlsCA != "" || s.tlsCert != "" || s.tlsKey != "" || s.tlsServerName != ""
}

// checkTLS finds the mistakes that a connection would otherwise find later.
func (s *settings) checkTLS() (mistakes []error) {
	switch {
	case s.tlsCert != "" && s.tlsKey == "":
		mistakes = append(mistakes, fmt.Errorf("%s needs --tls-key, the certificate's key", s.label("tls-cert")))
	case s.tlsCert == "" && s.tlsKey != "":
		mistakes = append(mistakes, fmt.Errorf("%s needs --tls-cert, the key's certificate", s.label("tls-key")))
	case s.tlsCert != "":
		if _, err := s.certificate(); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	if s.tlsCA != "" {
		if _, err := s.authorities(); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	return mistakes
}

// tlsConfig reads the files as they are now, so that a rotated certificate serves the next connection.
func (s *settings) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.tlsServerName}
	if s.tlsCA != "" {
		pool, err := s.authorities()
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	if s.tlsCert != "" {
		certificate, err := s.certificate()
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

func (s *settings) certificate() (tls.Certificate, error) {
	certificate, err := tls.LoadX509KeyPair(s.tlsCert, s.tlsKey)
	if err != nil {
		return certificate, fmt.Errorf("%s and %s: %w", s.label("tls-cert"), s.label("tls-key"), err)
	}
	return certificate, nil
}

func (s *settings) authorities() (*x509.CertPool, error) {
	pem, err := os.ReadFile(s.tlsCA)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.label("tls-ca"), err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s %s: no certificate in it: it must be a PEM file", s.label("tls-ca"), s.tlsCA)
	}
	return pool, nil
}
