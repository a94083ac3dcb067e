package testserver_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder is a testing.TB that a test can fail without failing itself.
type recorder struct {
	testing.TB
	mu              sync.Mutex
	log             strings.Builder
	failed, skipped bool
	cleanups        []func()
}

// record runs f like a test, to the end of its cleanups.
func record(t *testing.T, f func(testing.TB)) *recorder {
	t.Helper()
	r := &recorder{TB: t}
	r.do(func() { f(r) })
	for _, f := range slices.Backward(r.cleanups) {
		r.do(f)
	}
	return r
}

// do survives the Goexit of a Fatalf or Skipf.
func (r *recorder) do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (r *recorder) Helper() {}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.log, format+"\n", args...)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.failed = true
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.Logf(format, args...)
	r.skipped = true
	runtime.Goexit()
}

func (r *recorder) Failed() bool { return r.failed }

// want checks how it ended and what it said.
func (r *recorder) want(t *testing.T, failed, skipped bool, words ...string) {
	t.Helper()
	log := r.log.String()
	if r.failed != failed || r.skipped != skipped {
		t.Errorf("failed %v, skipped %v; want %v, %v; it said:\n%s", r.failed, r.skipped, failed, skipped, log)
	}
	for _, word := range words {
		if !strings.Contains(log, word) {
			t.Errorf("it does not say %q, but:\n%s", word, log)
		}
	}
}
