package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
)

// rig is what the test servers need of a test: somebody to tell what went wrong, and its end.
type rig struct {
	testing.TB // nil: what is not below is not used
	err        error
	cleanups   []func()
}

// do runs f, which may end itself as a test may, and returns why it did.
func (r *rig) do(f func(testing.TB)) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f(r)
	}()
	<-ended
	err := r.err
	r.err = nil
	return err
}

// close ends what the rig has, last first.
func (r *rig) close() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	r.cleanups = nil
	if r.err != nil {
		_, _ = fmt.Fprintln(os.Stderr, r.err)
	}
}

func (r *rig) Helper()          {}
func (r *rig) Failed() bool     { return r.err != nil }
func (r *rig) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *rig) Logf(format string, args ...any) { _, _ = fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (r *rig) Errorf(format string, args ...any) {
	r.err = errors.Join(r.err, fmt.Errorf(format, args...))
}

func (r *rig) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf is a failure here: whoever asked for the server leaves its column out and says why.
func (r *rig) Skipf(format string, args ...any) { r.Fatalf(format, args...) }
