package faultproxy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
)

const (
	// patience bounds what must happen soon; only a failing test waits for it.
	patience = 20 * time.Second
	// silence is how long a test listens where nothing may be heard.
	silence = 150 * time.Millisecond
)

func TestPassesBothDirectionsUntilBothEndsHaveClosed(t *testing.T) {
	t.Parallel()
	proxy := start(t, echo(t).addr)
	conn := dial(t, proxy)

	want := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // many chunks
	go func() {
		_, _ = conn.Write(want)
		_ = conn.CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes back, want the %d that were sent", len(got), len(want))
	}
	_ = conn.Close()
	eventually(t, "the link to end", func() bool { return proxy.Open() == 0 })
}

func TestRefuseResetsOpenAndNewConnectionsUntilPass(t *testing.T) {
	t.Parallel()
	server := echo(t)
	proxy := start(t, server.addr)
	open := dial(t, proxy)
	roundTrip(t, open, "before")

	proxy.Refuse()
	wantReset(t, open)
	eventually(t, "the target to lose its connection", func() bool { return server.open() == 0 })
	wantRefused(t, proxy)
	if got := server.accepted(); got != 1 {
		t.Errorf("the target saw %d connections, want only the one from before", got)
	}

	proxy.Pass()
	roundTrip(t, dial(t, proxy), "after")
	if got := proxy.Accepted(); got != 3 {
		t.Errorf("Accepted() = %d, want 3: refused connections count", got)
	}
}

func TestBlackholeHoldsBothDirectionsAndPassDeliversAll(t *testing.T) {
	t.Parallel()
	server := manual(t)
	proxy := start(t, server.addr)
	client := dial(t, proxy)
	send(t, client, "hello")
	peer := server.next(t)
	receive(t, peer, "hello")

	proxy.Blackhole()
	send(t, client, "request ")
	send(t, peer, "answer ")
	wantSilence(t, client)
	wantSilence(t, peer)
	if got := proxy.Open(); got != 1 {
		t.Errorf("Open() = %d, want the connection to stay open", got)
	}
	send(t, client, "and more")
	send(t, peer, "and more")

	proxy.Pass()
	receive(t, peer, "request and more")
	receive(t, client, "answer and more")
}

func TestBlackholeKeepsNewConnectionsFromTheTarget(t *testing.T) {
	t.Parallel()
	server := echo(t)
	proxy := start(t, server.addr)
	proxy.Blackhole()
	client := dial(t, proxy)
	send(t, client, "early")
	wantSilence(t, client)
	if got := server.accepted(); got != 0 {
		t.Errorf("the target saw %d connections through a partition", got)
	}
	proxy.Pass()
	receive(t, client, "early")
}

func TestBlackholeHidesThatAnEndHasGone(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name  string
		leave func(*net.TCPConn)
	}{
		{"closed", func(c *net.TCPConn) { _ = c.Close() }},
		{"reset", func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() }},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			server := manual(t)
			proxy := start(t, server.addr)
			client := dial(t, proxy)
			send(t, client, "x")
			peer := server.next(t)
			receive(t, peer, "x")

			proxy.Blackhole()
			end.leave(client)
			wantSilence(t, peer)
			proxy.Pass()
			_ = peer.SetReadDeadline(time.Now().Add(patience))
			if _, err := peer.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read after the partition: %v, want to learn that the client is gone", err)
			}
			_ = peer.Close()
			eventually(t, "the link to end", func() bool { return proxy.Open() == 0 })
		})
	}
}

func TestDelayMakesChunksLateAndNotFewer(t *testing.T) {
	t.Parallel()
	const d, rounds = 50 * time.Millisecond, 40
	proxy := start(t, echo(t).addr)
	conn := dial(t, proxy)
	roundTrip(t, conn, "warm-up")
	proxy.Delay(d)

	begin := time.Now()
	roundTrip(t, conn, "late")
	if took := time.Since(begin); took < 2*d {
		t.Errorf("a round trip took %v, want at least %v", took, 2*d)
	}

	begin = time.Now()
	for range rounds {
		send(t, conn, "x")
		time.Sleep(time.Millisecond) // keeps the writes apart, so that they are chunks
	}
	receive(t, conn, strings.Repeat("x", rounds))
	if took, oneByOne := time.Since(begin), 2*d*rounds; took > oneByOne/2 {
		t.Errorf("%d pipelined chunks took %v; one after the other would be %v", rounds, took, oneByOne)
	}
}

func TestDelayedBytesAreNotOvertakenAfterPass(t *testing.T) {
	t.Parallel()
	server := manual(t)
	proxy := start(t, server.addr)
	client := dial(t, proxy)
	send(t, client, "0")
	peer := server.next(t)
	receive(t, peer, "0")

	proxy.Delay(300 * time.Millisecond)
	send(t, client, "1")
	wantSilence(t, peer)
	proxy.Pass()
	send(t, client, "2")
	receive(t, peer, "12")
}

func TestCutZeroLosesTheAnswerOfAnExecutedRequest(t *testing.T) {
	t.Parallel()
	server := manual(t)
	proxy := start(t, server.addr)
	client := dial(t, proxy)
	send(t, client, "x")
	peer := server.next(t)
	receive(t, peer, "x")

	proxy.Cut(0)
	send(t, client, "request")
	receive(t, peer, "request")
	wantSilence(t, client) // the connection dies of the answer, not before
	send(t, peer, "answer")
	wantEnd(t, client, "")
	wantEnd(t, peer, "")
}

func TestCutLetsExactlyThatMuchOfAnAnswerThroughOnEachConnection(t *testing.T) {
	t.Parallel()
	proxy := start(t, echo(t).addr)
	first := dial(t, proxy)
	roundTrip(t, first, "not counted")

	proxy.Cut(5)
	second := dial(t, proxy)
	for _, conn := range []*net.TCPConn{first, second} {
		roundTrip(t, conn, "abc")
		send(t, conn, "defg")
		wantEnd(t, conn, "de")
	}

	third := dial(t, proxy)
	roundTrip(t, third, "123")
	proxy.Cut(5) // counts anew
	roundTrip(t, third, "67890")
	send(t, third, "x")
	wantEnd(t, third, "")
}

func TestSetTargetMovesNewConnectionsOnly(t *testing.T) {
	t.Parallel()
	before, after := echo(t), echo(t)
	proxy := start(t, before.addr)
	open := dial(t, proxy)
	roundTrip(t, open, "to the old one")

	proxy.SetTarget(after.addr)
	roundTrip(t, open, "still to the old one")
	roundTrip(t, dial(t, proxy), "to the new one")
	if diff := cmp.Diff([]int{1, 1}, []int{before.accepted(), after.accepted()}); diff != "" {
		t.Errorf("connections that the old and the new target saw (-want +got):\n%s", diff)
	}
}

func TestResetsClientsWhileTheTargetIsDown(t *testing.T) {
	t.Parallel()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	down := listener.Addr().String()
	_ = listener.Close()
	proxy := start(t, down)
	wantRefused(t, proxy)
	proxy.SetTarget(echo(t).addr)
	roundTrip(t, dial(t, proxy), "up")
}

func TestRefusesATargetWithoutPort(t *testing.T) {
	t.Parallel()
	proxy, err := faultproxy.New("localhost")
	if err == nil {
		proxy.Close()
		t.Fatal("no error")
	}
	if !strings.Contains(err.Error(), "host:port") {
		t.Errorf("error %q does not name the remedy", err)
	}
}

func TestConcurrentVerbsAndTraffic(t *testing.T) {
	t.Parallel()
	server := echo(t)
	proxy := start(t, server.addr)
	verbs := []func(){
		proxy.Pass, proxy.Refuse, proxy.Blackhole,
		func() { proxy.Delay(time.Millisecond) },
		func() { proxy.Cut(3) },
		func() { proxy.SetTarget(server.addr) },
		func() { proxy.Open() },
	}
	var busy sync.WaitGroup
	for i := range 8 {
		busy.Go(func() {
			for j := range 50 {
				verbs[(i+j)%len(verbs)]()
				conn, err := net.Dial("tcp", proxy.Addr())
				if errors.Is(err, syscall.ECONNRESET) {
					continue // refused
				}
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = conn.Write([]byte("hello"))
				_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
				_, _ = conn.Read(make([]byte, 8))
				_ = conn.Close()
			}
		})
	}
	busy.Wait()
	proxy.Pass()
	roundTrip(t, dial(t, proxy), "still alive")
	eventually(t, "abandoned links to end", func() bool { return proxy.Open() <= 1 })
}

// Not parallel: it looks for the package's goroutines in the whole process.
func TestCloseLeavesNoGoroutineWhateverTheVerb(t *testing.T) {
	for name, verb := range map[string]func(*faultproxy.Proxy){
		"pass":      (*faultproxy.Proxy).Pass,
		"refuse":    (*faultproxy.Proxy).Refuse,
		"blackhole": (*faultproxy.Proxy).Blackhole,
		"delay":     func(p *faultproxy.Proxy) { p.Delay(time.Hour) },
		"cut":       func(p *faultproxy.Proxy) { p.Cut(1) },
	} {
		t.Run(name, func(t *testing.T) {
			server := manual(t) // never reads, so that queues and windows fill up
			proxy := start(t, server.addr)
			flooded, idle := dial(t, proxy), dial(t, proxy)
			send(t, idle, "x")
			verb(proxy)
			_ = flooded.SetWriteDeadline(time.Now().Add(silence))
			_, _ = flooded.Write(make([]byte, 64<<20))
			proxy.Close()
			proxy.Close()
			verb(proxy)

			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			if bytes.Contains(stacks, []byte("faultproxy.(*Proxy)")) {
				t.Errorf("goroutines left after Close:\n%s", stacks)
			}
			if got := proxy.Open(); got != 0 {
				t.Errorf("Open() = %d after Close", got)
			}
			if conn, err := net.Dial("tcp", proxy.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
				if err == nil {
					_ = conn.Close()
				}
				t.Errorf("dial after Close: %v, want connection refused", err)
			}
		})
	}
}
