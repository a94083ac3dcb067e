package testserver

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// startTimeout and stopTimeout only bound what hangs: on a loaded machine a
	// server may well take ten times the second that it usually needs.
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
	// readyPoll is how often a starting server is asked whether it answers.
	readyPoll = 20 * time.Millisecond
)

// launch says how to run a server in the place that is reserved for it.
type launch struct {
	program program
	args    []string
	// ready returns nil once the server answers as its clients need it.
	ready func(context.Context) error
}

// Server is a running server. Its methods take the test that calls them: they
// end it with the server's last log lines when the server does not obey, and skip
// it when the server is not ours to control (see the package comment).
type Server struct {
	name  string
	addr  string
	place *place // nil for a server that was running already
	how   launch

	mu      sync.Mutex
	process *process // the last one started
	running bool     // as far as our own orders go
	shared  bool
}

// Addr is the server's "host:port". It stays the same for the server's life.
func (s *Server) Addr() string { return s.addr }

// start begins a server's life, which ends with the test.
func start(t testing.TB, name string, p *place, how launch) *Server {
	t.Helper()
	s := &Server{name: name, addr: p.addr(), place: p, how: how}
	t.Cleanup(func() {
		s.report(t)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.process != nil {
			s.process.kill()
		}
		if err := s.place.free(); err != nil {
			t.Errorf("%s: remove its folder: %v", s.name, err)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run(t)
	return s
}

// Stop asks the server to end (SIGTERM) and waits until it has. A server that is
// not running stays so.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.control(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(t)
}

// Kill ends the server at once (SIGKILL) and waits until it is gone. What it had
// acknowledged before is there after a Restart.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.control(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	s.process.kill()
}

// Restart starts the server again, after a Stop if it is running, on the same
// port with the same data, and waits until it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.control(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(t)
	s.run(t)
}

// Pause freezes the server (SIGSTOP) and waits until it is frozen: connections
// stay open, the kernel still accepts new ones, and nothing is answered.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.control(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.pause(stopTimeout); err != nil {
		t.Fatalf("pause %s: %v\n%s", s.name, err, s.tail())
	}
}

// Resume ends a Pause (SIGCONT).
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.control(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.signal(syscall.SIGCONT)
}

// control ends a test that wants to control a server that is not its own.
func (s *Server) control(t testing.TB) {
	t.Helper()
	if s.place == nil {
		t.Skipf("needs a %s of its own, not the one at %s", s.name, s.addr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared {
		t.Fatalf("this %s is shared with other tests; start one for this test alone", s.name)
	}
}

// share lends the server to one more test.
func (s *Server) share(t testing.TB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = true
	if s.place != nil {
		t.Cleanup(func() { s.report(t) })
	}
}

// report tells a test that is ending how the server fares: a crash fails it, and
// its own failure is explained by the server's log.
func (s *Server) report(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running && s.process.exited() {
		s.running = false // said once
		t.Errorf("%s ended by itself: %s\n%s", s.name, s.process.end(), s.tail())
	} else if t.Failed() {
		t.Logf("%s at %s, last log lines:\n%s", s.name, s.addr, s.tail())
	}
}

// run needs s.mu, and no process alive.
func (s *Server) run(t testing.TB) {
	t.Helper()
	p, err := startProcess(s.how.program.command(s.how.args...), s.place.dir, s.logFile())
	if err != nil {
		t.Fatalf("start %s: %v", s.name, err)
	}
	s.process = p
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := s.how.ready(ctx)
		if err == nil {
			s.running = true
			return
		}
		select {
		case <-p.done:
			t.Fatalf("start %s: it ended at once: %s\n%s", s.name, p.end(), s.tail())
		case <-ctx.Done():
			p.kill()
			t.Fatalf("start %s: no answer within %v: %v\n%s", s.name, startTimeout, err, s.tail())
		case <-time.After(readyPoll):
		}
	}
}

// stop needs s.mu.
func (s *Server) stop(t testing.TB) {
	t.Helper()
	if !s.running {
		return
	}
	s.running = false
	if !s.process.stop(stopTimeout) {
		s.process.kill()
		t.Fatalf("stop %s: still there after %v, killed\n%s", s.name, stopTimeout, s.tail())
	}
}

func (s *Server) logFile() string { return filepath.Join(s.place.dir, "log") }

func (s *Server) tail() string {
	text, err := tailOf(s.logFile())
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return text
}
