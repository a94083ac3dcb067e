package httpstatus_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/httpstatus"
)

// serve answers with h on a free port of this machine for as long as the test takes.
func serve(t *testing.T, h http.Handler) (addr string, stop func() error) {
	t.Helper()
	l, err := httpstatus.Listen(t.Context(), "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- httpstatus.Serve(ctx, l, h, nil) }()
	var result error
	stopped := false
	stop = func() error {
		if !stopped {
			cancel()
			result, stopped = <-served, true
		}
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return l.Addr().String(), stop
}

func dial(t *testing.T, addr, send string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, send); err != nil {
		t.Fatal(err)
	}
	return c
}

// get asks over a connection of its own, as a kubelet does.
func get(t *testing.T, addr, path string) (code int, body string) {
	t.Helper()
	c := dial(t, addr, "GET "+path+" HTTP/1.1\r\nHost: sidecar\r\nConnection: close\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return answer.StatusCode, string(text)
}

// closed waits until the server closes c.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("the server keeps %v: %v", c.LocalAddr(), err)
	}
}

func TestIdleConnectionsKeepNoProbeOut(t *testing.T) {
	t.Parallel()
	addr, _ := serve(t, httpstatus.New(standby(), nil))
	const request = "GET /leader HTTP/1.1\r\nHost: sidecar\r\n\r\n"
	first := dial(t, addr, request)
	for i := range 400 { // more than there is room for
		switch i % 3 {
		case 0:
			dial(t, addr, "") // never says anything
		case 1:
			dial(t, addr, "GET /leader HTTP/1.1\r\nHo") // never ends its request
		case 2:
			dial(t, addr, request) // never asks again
		}
	}
	for range 20 {
		if code, _ := get(t, addr, "/livez"); code != http.StatusOK {
			t.Fatalf("livez: %d", code)
		}
	}
	closed(t, first) // the oldest made room
}

func TestALongHeaderIsRefused(t *testing.T) {
	t.Parallel()
	addr, _ := serve(t, httpstatus.New(standby(), nil))
	c := dial(t, addr, "GET /leader HTTP/1.1\r\nHost: sidecar\r\nX-Long: "+strings.Repeat("x", 64<<10))
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", answer.StatusCode)
	}
}

func TestWhoAreBeingAnsweredKeepTheirConnections(t *testing.T) {
	t.Parallel()
	hub := &httpstatus.Hub{}
	s := standby()
	addr, _ := serve(t, httpstatus.New(s, &httpstatus.Options{Hub: hub}))
	stream := bufio.NewReader(dial(t, addr, "GET /events HTTP/1.1\r\nHost: sidecar\r\n\r\n"))
	readUntil(t, stream, "data: ")
	for range 400 {
		dial(t, addr, "")
	}
	if code, _ := get(t, addr, "/livez"); code != http.StatusOK {
		t.Errorf("livez: %d", code)
	}
	s.state.Revision++
	hub.Publish(s.state)
	readUntil(t, stream, "data: ")
}

func readUntil(t *testing.T, r *bufio.Reader, prefix string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("waiting for %q: %v", prefix, err)
		}
		if strings.HasPrefix(line, prefix) {
			return
		}
	}
}

func TestStoppingEndsWhatWaits(t *testing.T) {
	t.Parallel()
	addr, stop := serve(t, httpstatus.New(standby(), &httpstatus.Options{Hub: &httpstatus.Hub{}}))
	stream := dial(t, addr, "GET /events HTTP/1.1\r\nHost: sidecar\r\n\r\n")
	readUntil(t, bufio.NewReader(stream), "data: ")
	idle := dial(t, addr, "")
	if err := stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	closed(t, stream)
	closed(t, idle)
	var d net.Dialer
	if c, err := d.DialContext(t.Context(), "tcp", addr); err == nil {
		_ = c.Close()
		t.Error("still listening")
	}
}

func TestABrokenListenerIsAnError(t *testing.T) {
	t.Parallel()
	l, err := httpstatus.Listen(t.Context(), "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := httpstatus.Serve(t.Context(), l, http.NotFoundHandler(), nil); err == nil {
		t.Error("no error")
	}
}

func TestListensOnEveryIPVersionThatThereIs(t *testing.T) {
	t.Parallel()
	l, err := httpstatus.Listen(t.Context(), "--listen", ":0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- httpstatus.Serve(ctx, l, httpstatus.New(standby(), nil), nil) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	tried := 0
	for _, ip := range []string{"127.0.0.1", "::1"} {
		if probe, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(ip, "0")); err != nil {
			continue // this machine does not have it
		} else if err := probe.Close(); err != nil {
			t.Fatal(err)
		}
		tried++
		if code, _ := get(t, net.JoinHostPort(ip, fmt.Sprint(port)), "/livez"); code != http.StatusOK {
			t.Errorf("%s: %d", ip, code)
		}
	}
	if tried == 0 {
		t.Error("this machine has no IP")
	}
}

func TestErrorsOfListeningNameFlagAndRemedy(t *testing.T) {
	t.Parallel()
	l, err := httpstatus.Listen(t.Context(), "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, addr := range []string{l.Addr().String(), "127.0.0.1", "127.0.0.1:http-ish", "192.0.2.1:0"} {
		_, err := httpstatus.Listen(t.Context(), "--listen", addr)
		if err == nil || !strings.HasPrefix(err.Error(), "--listen "+addr) || !strings.Contains(err.Error(), "or off") {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if _, err := httpstatus.ListenLoopback(t.Context(), "--admin-listen", ":0"); err == nil || !strings.Contains(err.Error(), "--admin-listen :0: others can reach that address: use one like 127.0.0.1:4041") {
		t.Errorf("all addresses: %v", err)
	}
	loop, err := httpstatus.ListenLoopback(t.Context(), "--admin-listen", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = loop.Close()
}
