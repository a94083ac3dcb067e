package faultproxy_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
)

// target is a TCP server that counts its connections.
type target struct {
	addr  string
	conns chan *net.TCPConn // of a manual target

	mu    sync.Mutex
	seen  int
	alive map[*net.TCPConn]struct{}
}

// echo starts a target that sends everything back.
func echo(t *testing.T) *target {
	t.Helper()
	return listen(t, func(s *target, conn *net.TCPConn) {
		_, _ = io.Copy(conn, conn)
		_ = conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.alive, conn)
	})
}

// manual starts a target whose connections the test itself serves.
func manual(t *testing.T) *target {
	t.Helper()
	return listen(t, func(s *target, conn *net.TCPConn) { s.conns <- conn })
}

func listen(t *testing.T, serve func(*target, *net.TCPConn)) *target {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &target{
		addr:  listener.Addr().String(),
		conns: make(chan *net.TCPConn, 16),
		alive: make(map[*net.TCPConn]struct{}),
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.seen++
			s.alive[conn] = struct{}{}
			s.mu.Unlock()
			running.Go(func() { serve(s, conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.mu.Lock()
		for conn := range s.alive {
			_ = conn.Close()
		}
		s.mu.Unlock()
		running.Wait()
	})
	return s
}

func (s *target) accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *target) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alive)
}

func (s *target) next(t *testing.T) *net.TCPConn {
	t.Helper()
	select {
	case conn := <-s.conns:
		return conn
	case <-time.After(patience):
		t.Fatal("no connection reached the target")
		return nil
	}
}

func start(t *testing.T, target string) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

func dial(t *testing.T, proxy *faultproxy.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

func send(t *testing.T, conn *net.TCPConn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatalf("send %q: %v", text, err)
	}
}

func receive(t *testing.T, conn *net.TCPConn, want string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("received %q, %v; want %q", got[:n], err, want)
	}
}

func roundTrip(t *testing.T, conn *net.TCPConn, text string) {
	t.Helper()
	send(t, conn, text)
	receive(t, conn, text)
}

func wantSilence(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(silence))
	buf := make([]byte, 64)
	if n, err := conn.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("received %q, %v; want nothing", buf[:n], err)
	}
}

// wantEnd expects these last bytes and then the end of the stream.
func wantEnd(t *testing.T, conn *net.TCPConn, want string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(conn)
	if string(got) != want || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("received %q, %v; want %q and the end", got, err, want)
	}
}

func wantReset(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if n, err := conn.Read(make([]byte, 64)); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("read: %d bytes, %v; want a reset", n, err)
	}
}

// wantRefused expects a new connection to be reset, in or after its connect.
func wantRefused(t *testing.T, proxy *faultproxy.Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Addr())
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	wantReset(t, conn.(*net.TCPConn))
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}
