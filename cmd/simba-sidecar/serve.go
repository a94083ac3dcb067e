package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/simba-sidecar/simba-sidecar/pkg/backends"
	"github.com/simba-sidecar/simba-sidecar/pkg/sinks"
)

// serve is the sidecar: it contends, and publishes where it stands, until it is told to stop.
func serve(ctx context.Context, p process) error {
	s := serveSettings()
	b, err := s.begin(p, "", func(command []string) error {
		if len(command) > 0 {
			return fmt.Errorf(`unexpected %q behind "--": to run a command, use simba-sidecar run`, command)
		}
		return nil
	})
	if err != nil {
		return err
	}
	log := b.log
	ctx, stop := untilSignal(ctx,
		func(number syscall.Signal) { log.Info("stopping", "signal", number.String()) },
		func(syscall.Signal) int { return exitFailure })
	defer stop()
	if err := s.serve(ctx, b.store, log); err != nil {
		log.Error("stopped", "err", err)
		code := &exitError{code: exitFailure}
		errors.As(err, &code)
		return &exitError{code: code.code} // the log has said it
	}
	log.Info("stopped")
	return nil
}

func (s *settings) serve(ctx context.Context, st *store, log *slog.Logger) error {
	m := member{settings: s, store: st, log: log, contender: s.contender(), stopTimeout: s.stopTimeout}
	if s.dir == "" {
		return m.run(ctx)
	}
	location, err := backends.Location(st.url)
	if err != nil {
		return err
	}
	kind, err := backends.Scheme(st.url)
	if err != nil {
		return err
	}
	dir, err := sinks.LockDir(s.dir)
	if err != nil {
		return fmt.Errorf("%s: %w", s.label("dir"), err)
	}
	// After a process that was killed, nobody else uses its identity: its term, if it lasts, is ours.
	if before, ok := dir.Predecessor(); ok && !s.observe && before.Mutex == s.mutex && before.Store == location {
		m.contender.Identity, m.resume = before.Identity, before.Token
	}
	return errors.Join(m.run(ctx, sinks.NewFiles(dir, location, kind)), dir.Close())
}
