package mysql

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
)

func TestTermOutlivesTheServersRestart(t *testing.T) {
	onOwn(t, manyConnections, func(t *testing.T, s *store) {
		c := contender("a")
		c.TTL = 10 * time.Minute
		c.Transition = time.Minute
		b := open(t, s.location(), c, nil)
		lease := wins(t, b, "a")
		for name, end := range map[string]func(testing.TB){"stop": s.Stop, "kill": s.Kill} {
			w := watch(t, b)
			eventually(t, "the leader to have its lock", func() bool { return s.owner(t, s.lockNames().leader) != 0 })
			renew(t, b, lease.Token)
			end(t)
			for range 2 {
				if _, err := b.Renew(t.Context(), lease.Token); err == nil {
					t.Errorf("%s: renewed without a server", name)
				}
			}
			s.Restart(t)
			if got := renew(t, b, lease.Token); got.Token != lease.Token {
				t.Errorf("%s: renewed %+v", name, got)
			}
			if err := w.end(t); err == nil {
				t.Errorf("%s: watch ended without an error", name)
			}
		}
	})
}

func TestServerThatIsGoneForLongerThanALease(t *testing.T) {
	onOwn(t, manyConnections, func(t *testing.T, s *store) {
		r := newRace()
		var all []*runner
		for i := range 3 {
			all = append(all, r.run(t, s.location(), contender(fmt.Sprintf("c%d", i))))
		}
		first := r.next(t).State().Token
		s.Kill(t)
		eventually(t, "nobody to lead", func() bool { return r.leaders.Load() == 0 })
		tick := time.NewTimer(3 * contender("").Lease())
		<-tick.C
		for _, w := range all {
			if w.State().Leading() {
				t.Errorf("%s leads without a server", w.identity)
			}
		}
		s.Restart(t)
		if token := r.next(t).State().Token; token <= first {
			t.Errorf("token %d after %d", token, first)
		}
		if n := r.most.Load(); n != 1 {
			t.Errorf("%d led at once", n)
		}
	})
}

func TestHeadThatIsCutOffDoesNotHoldUpTheOthers(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		p, err := faultproxy.New(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		r := newRace()
		leader := r.run(t, s.location(), contender("leader"))
		r.next(t)
		eventually(t, "the leader to have left the queue", func() bool {
			return s.owner(t, s.lockNames().leader) != 0 && s.owner(t, s.lockNames().queue) == 0
		})
		head := r.run(t, s.URLAt(p.Addr(), s.database), contender("head"))
		eventually(t, "the head to wait", func() bool { return s.owner(t, s.lockNames().queue) != 0 })
		r.run(t, s.location(), contender("next"))
		r.quiet(t, s, 2)
		p.Blackhole()
		leader.stop()
		if w := r.next(t); w.identity != "next" {
			t.Errorf("%s leads", w.identity)
		}
		eventually(t, "the next to have both locks' connection", func() bool { return s.owner(t, s.lockNames().leader) != 0 })
		p.Pass()
		eventually(t, "the head to see who leads", func() bool { return head.State().Holder == "next" })
	})
}

// TestResolvesTheHostAgain moves a name to another address.
func TestResolvesTheHostAgain(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		resolver, names := serveNames(t, "127.0.0.1")
		_, port, err := net.SplitHostPort(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		moved := forward(t, net.JoinHostPort("127.0.0.2", port), s.Addr())
		b := open(t, s.URLAt("db.test.:"+port, s.database), contender("a"), nil)
		b.(*watched).dialer.Resolver = resolver
		w := watch(t, b)
		lease := wins(t, b, "a")
		eventually(t, "the leader to have its lock", func() bool {
			renew(t, b, lease.Token)
			return s.owner(t, s.lockNames().leader) != 0
		})
		if moved.Load() != 0 {
			t.Fatal("connected to an address that the name does not have")
		}
		names.Store(netip.MustParseAddr("127.0.0.2"))
		s.exec(t, fmt.Sprintf("kill %d", s.owner(t, s.lockNames().leader)))
		if _, err := b.Renew(t.Context(), lease.Token); err == nil {
			t.Error("renewed over a connection that was killed")
		}
		if got := renew(t, b, lease.Token); got.Token != lease.Token || moved.Load() == 0 {
			t.Errorf("renewed %+v, and %d connections to the new address", got, moved.Load())
		}
		_ = w.end(t)
		connected := moved.Load()
		watch(t, b)
		if moved.Load() == connected {
			t.Error("Watch is not connected to the new address")
		}
	})
}

// forward accepts connections on one address and passes them to another. It counts them.
func forward(t *testing.T, from, to string) *atomic.Int32 {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", from)
	if err != nil {
		t.Skipf("no second loopback address: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	count := new(atomic.Int32)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			var d net.Dialer
			server, err := d.DialContext(context.Background(), "tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			pass := func(to, from net.Conn) { _, _ = io.Copy(to, from); _ = to.Close() }
			go pass(client, server)
			go pass(server, client)
		}
	}()
	return count
}

// serveNames returns a resolver for which every name has one and the same address.
func serveNames(t *testing.T, address string) (*net.Resolver, *atomic.Value) {
	t.Helper()
	var config net.ListenConfig
	l, err := config.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer := new(atomic.Value)
	answer.Store(netip.MustParseAddr(address))
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := l.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = l.WriteTo(respond(buf[:n], answer.Load().(netip.Addr)), from)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", l.LocalAddr().String())
	}}, answer
}

// respond answers a DNS query for IPv4 addresses with one, and any other with nothing.
func respond(query []byte, address netip.Addr) []byte {
	const header = 12
	end := header
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root label, type and class
	r := append([]byte{}, query[:end]...)
	binary.BigEndian.PutUint16(r[2:], 0x8180) // a response without error
	clear(r[6:header])
	if binary.BigEndian.Uint16(query[end-4:]) != 1 {
		return r
	}
	r[7] = 1                                // answers
	r = append(r, 0xc0, header, 0, 1, 0, 1) // the queried name, type A, class IN
	r = append(r, 0, 0, 0, 0, 0, 4)         // no time to live, four bytes
	return append(r, address.Unmap().AsSlice()...)
}
