package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// load reads and checks a command's configuration. It returns the store and the command's own arguments
// (behind "--"), or all mistakes at once.
func (s *settings) load(p process) (st *store, rest []string, mistakes []error) {
	rest, mistakes = s.parse(p.args, p.env)
	if wantsHelp(mistakes) {
		return nil, nil, mistakes
	}
	s.name = cmp.Or(s.name, defaultName(p.env))

	if s.mutex == "" {
		mistakes = append(mistakes, errors.New("--mutex is required: the name of the mutex, the same in all contenders"))
	}
	st, wrong := s.store(p.env)
	mistakes = append(mistakes, wrong...)
	mistakes = append(mistakes, s.checkContender()...)
	if s.stopTimeout <= 0 {
		mistakes = append(mistakes, fmt.Errorf("%s %v is too short: use 1ms or more", s.label("stop-timeout"), s.stopTimeout))
	}
	mistakes = append(mistakes, s.checkListener("listen", s.listen), s.checkListener("admin-listen", s.adminListen), s.checkDir())
	if _, err := s.logger(io.Discard); err != nil {
		mistakes = append(mistakes, err)
	}
	return st, rest, compact(mistakes)
}

// contender returns who contends under a new identity.
func (s *settings) contender() election.Contender {
	return election.Contender{Mutex: s.mutex, Identity: newIdentity(s.name), TTL: s.ttl, Transition: s.transition}
}

func (s *settings) checkContender() []error {
	c := s.contender()
	c.Mutex = cmp.Or(c.Mutex, "required") // said already
	return each(c.Validate())
}

// each returns the errors that were joined to err, if any were, else err itself, if there is one.
func each(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return compact([]error{err})
}

// checkListener takes an address with a port, or "off". The admin listener can give the mutex up and
// has no authentication, so only this machine may reach it.
func (s *settings) checkListener(name, address string) error {
	if address == off {
		return nil
	}
	example := s.all.Lookup(name).DefValue
	if example == off {
		example = "127.0.0.1:4040"
	}
	host, port, err := net.SplitHostPort(address)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return fmt.Errorf("%s %q is not an address with a port: use one such as %s, or off", s.label(name), address, example)
	}
	if ip := net.ParseIP(host); name == "admin-listen" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s %q would let other machines step this process down: use a loopback address such as 127.0.0.1:%s, or off", s.label(name), address, port)
	}
	return nil
}

func (s *settings) checkDir() error {
	if s.dir == "" {
		return nil
	}
	if info, err := os.Stat(s.dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s %s is not a directory: create it, or mount the volume that the application shares", s.label("dir"), s.dir)
	}
	return nil
}

// logger writes to w in the configured format.
func (s *settings) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	wrong := level.UnmarshalText([]byte(s.logLevel))
	if wrong != nil {
		wrong = fmt.Errorf("%s %q: use debug, info, warn or error", s.label("log-level"), s.logLevel)
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readableDuration}
	switch s.logFormat {
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), wrong
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), wrong
	}
	return nil, errors.Join(wrong, fmt.Errorf("%s %q: use json or text", s.label("log-format"), s.logFormat))
}

// readableDuration writes 10s where JSON would have 10000000000.
func readableDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// compact leaves out the checks that found nothing.
func compact(mistakes []error) (found []error) {
	for _, err := range mistakes {
		if err != nil {
			found = append(found, err)
		}
	}
	return found
}
