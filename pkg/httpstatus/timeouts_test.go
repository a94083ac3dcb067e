package httpstatus_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/httpstatus"
)

// pipes is a Listener without a network, so that a bubble's clock runs the server's time-outs.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// connect returns the client's end of a new connection.
func (p *pipes) connect(t *testing.T) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	p.conns <- server
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func servePipes(t *testing.T, h http.Handler) *pipes {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- httpstatus.Serve(ctx, p, h, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return p
}

func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	const ask = "GET /leader HTTP/1.1\r\nHost: sidecar\r\n\r\n"
	for name, test := range map[string]struct {
		send   string
		reads  bool
		within time.Duration
	}{
		"says nothing":           {send: "", reads: true, within: 5 * time.Second},
		"ends no request":        {send: ask[:20], reads: true, within: 5 * time.Second},
		"sends no body":          {send: "POST /leader HTTP/1.1\r\nHost: sidecar\r\nContent-Length: 5\r\n\r\n", reads: true, within: 10 * time.Second},
		"reads no answer":        {send: ask, within: 10 * time.Second},
		"reads no events":        {send: strings.Replace(ask, "leader", "events", 1), within: 10 * time.Second},
		"asks once and is quiet": {send: ask, reads: true, within: 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := servePipes(t, httpstatus.New(standby(), &httpstatus.Options{Hub: &httpstatus.Hub{}}))
				c := p.connect(t)
				if _, err := io.WriteString(c, test.send); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if !test.reads {
					time.Sleep(test.within)
					synctest.Wait()
				}
				if _, err := io.Copy(io.Discard, c); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took > test.within {
					t.Errorf("closed after %v, want %v", took, test.within)
				}
			})
		})
	}
}

func TestATrickleIsNoRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := servePipes(t, httpstatus.New(standby(), nil))
		c := p.connect(t)
		go func() { _, _ = io.Copy(io.Discard, c) }()
		start := time.Now()
		for range 1000 {
			if _, err := io.WriteString(c, "G"); err != nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("the server reads a trickle for %v", took)
		}
	})
}

func TestWaitingOutlivesTheServersTimeouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := servePipes(t, httpstatus.New(standby(), &httpstatus.Options{Hub: &httpstatus.Hub{}}))
		c := p.connect(t)
		start := time.Now()
		if _, err := io.WriteString(c, "GET /leader?wait=60s&after=41 HTTP/1.1\r\nHost: sidecar\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		_ = answer.Body.Close()
		if took := time.Since(start); took != time.Minute || answer.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%d after %v", answer.StatusCode, took)
		}

		c = p.connect(t)
		start = time.Now()
		if _, err := io.WriteString(c, "GET /events HTTP/1.1\r\nHost: sidecar\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		for lines, beats := bufio.NewReader(c), 0; beats < 20; {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("the stream ended after %v: %v", time.Since(start), err)
			}
			if strings.HasPrefix(line, ": alive") {
				beats++
			}
		}
		if took := time.Since(start); took != 5*time.Minute {
			t.Errorf("20 heartbeats in %v", took)
		}
	})
}

func TestStoppingWaitsForNobodyWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- httpstatus.Serve(ctx, p, httpstatus.New(standby(), &httpstatus.Options{Hub: &httpstatus.Hub{}}), nil)
		}()
		for _, path := range []string{"/events", "/leader?wait=60s&after=41"} {
			c := p.connect(t)
			if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: sidecar\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
		synctest.Wait()
		start := time.Now()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took >= time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

func TestAClientThatIsGoneLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := httpstatus.New(standby(), &httpstatus.Options{Hub: &httpstatus.Hub{}})
		p := servePipes(t, h)
		for range 200 { // each would take one of the places for those who wait
			c := p.connect(t)
			if _, err := io.WriteString(c, "GET /leader?wait=60s&after=41 HTTP/1.1\r\nHost: sidecar\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			_ = c.Close()
			synctest.Wait()
		}
		if a := askLater(t, h, "/leader?wait=60s&after=41"); a.answered() {
			t.Errorf("no room: %d %s", a.w.Code, a.w.Body)
		}
	})
}
