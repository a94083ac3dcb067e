package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// runCommand waits to lead and runs a command for as long as this process does.
func runCommand(ctx context.Context, p process) error {
	s := runSettings()
	b, err := s.begin(p, "run", func(command []string) error {
		if len(command) == 0 {
			return errors.New(`run needs a command behind "--", as in: simba-sidecar run --mutex NAME --backend URL -- CMD ARG`)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c, err := newChild(b.command)
	if err != nil {
		return err
	}
	log := b.log
	c.env, c.stdout, c.stderr, c.stopTimeout, c.log = inherited(p.environment), p.stdout, p.stderr, s.stopTimeout, log
	contender := s.contender()
	m := member{
		settings: s, store: b.store, log: log, contender: contender,
		// The command is killed after its own time-out, so this passes only if even that does not end it.
		// Then the mutex is given up nevertheless, but not within the time that a loss would take.
		stopTimeout: s.stopTimeout + contender.Lease(),
	}

	code := func(number syscall.Signal) int { return exitSignalBased + int(number) }
	ctx, stop := untilSignal(ctx,
		func(number syscall.Signal) {
			log.Info("stopping", "signal", number.String())
			c.signal.Store(int32(number)) //nolint:gosec // signals are small numbers
		},
		func(number syscall.Signal) int {
			c.kill(syscall.SIGKILL)
			return code(number)
		})
	defer stop()
	ctx, finish := context.WithCancel(ctx)
	defer finish()
	go func() {
		select {
		case <-c.over:
			finish()
		case <-ctx.Done():
		}
	}()

	err = m.run(ctx, c)
	ended := c.end()
	if err != nil {
		log.Error("stopped", "err", err)
	}
	switch number := syscall.Signal(c.signal.Load()); {
	case c.err != nil:
		return &exitError{ended, c.err}
	case err != nil && !errors.Is(err, election.ErrNotReleased): // our own failure, which the log names
		return &exitError{code: exitRunFailure}
	case c.lost:
		return &exitError{exitLost, fmt.Errorf("leadership ended before %s did", b.command[0])}
	case c.started:
		return exitCode(ended)
	case number != 0:
		return exitCode(code(number))
	}
	return exitCode(exitRunFailure)
}

// exitCode returns a silent error for a code that is not 0.
func exitCode(code int) error {
	if code == 0 {
		return nil
	}
	return &exitError{code: code}
}

// inherited returns the environment of the command, without what only we should know.
func inherited(environment []string) (env []string) {
	for _, entry := range environment {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case envBackend, envPassword, envToken, envMutex, envHolder:
		default:
			env = append(env, entry)
		}
	}
	return env
}
