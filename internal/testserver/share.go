package testserver

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// Shared is one server for all tests of a package.
type Shared[S server] struct {
	start func(testing.TB) S

	mu     sync.Mutex
	server S
	life   *life // nil until started
}

// server is what can be shared.
type server interface{ share(testing.TB) }

// Share makes start's server last beyond the test that first needs it:
//
//	var mariaDB = testserver.Share(func(t testing.TB) *testserver.SQLServer {
//		return testserver.MariaDB(t, nil)
//	})
//
//	func TestMain(m *testing.M) { m.Run(); mariaDB.Close() }
//
// and in tests mariaDB.Get(t). What start registers with its testing.TB (Cleanup,
// TempDir) lasts as long as the server. Where start skips or fails, it does so
// for each test that needs the server.
func Share[S server](start func(testing.TB) S) *Shared[S] { return &Shared[S]{start: start} }

// Get returns the server, started on the first call. It must not be stopped,
// killed or paused, since other tests may be using it.
func (s *Shared[S]) Get(t testing.TB) S {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		l := &life{TB: t}
		defer func() {
			if s.life == nil { // start has ended the test
				l.end()
			}
		}()
		s.server = s.start(l)
		s.life = l
	}
	s.server.share(t)
	return s.server
}

// Close ends the server, if it was started. No test may be using it any more.
func (s *Shared[S]) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil {
		s.life.end()
		s.life = nil
	}
}

// life is a testing.TB for what outlives a test. Once the test that it began with
// may be over, it reports on the standard error.
type life struct {
	testing.TB
	cleanups []func()
	ending   bool
	failed   bool
}

func (l *life) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

func (l *life) TempDir() string {
	l.Helper()
	dir, err := os.MkdirTemp("", "simba-testserver-")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			l.Errorf("remove a folder: %v", err)
		}
	})
	return dir
}

func (l *life) Errorf(format string, args ...any) {
	if !l.ending {
		l.Helper()
		l.TB.Errorf(format, args...)
		return
	}
	l.failed = true
	l.Logf(format, args...)
}

func (l *life) Logf(format string, args ...any) {
	if !l.ending {
		l.Helper()
		l.TB.Logf(format, args...)
		return
	}
	_, _ = fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (l *life) Failed() bool {
	if l.ending {
		return l.failed
	}
	return l.TB.Failed()
}

// end runs the cleanups, last first, as a test does.
func (l *life) end() {
	l.ending = true
	for _, f := range slices.Backward(l.cleanups) {
		f()
	}
	l.cleanups = nil
}
