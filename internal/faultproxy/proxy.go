package faultproxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// acceptRetry is the pause after a failed accept (the process ran out of file
// descriptors, say), so that the proxy neither spins nor dies of it.
const acceptRetry = 10 * time.Millisecond

// Proxy forwards TCP connections to one target under the verb in force. Its
// methods are safe for concurrent use.
type Proxy struct {
	listener *net.TCPListener
	closing  chan struct{}
	running  sync.WaitGroup

	mu       sync.Mutex
	target   string
	rule     *rule
	replaced chan struct{} // closed when rule is replaced
	links    map[*link]struct{}
	accepted int
	closed   bool
}

// verb says what happens to bytes; the zero verb lets them pass.
type verb int

const (
	pass verb = iota
	refuse
	blackhole
	cut
)

// rule is a verb with its argument. Rules are compared by address: the same verb
// given twice is two rules, so that a second Cut starts counting anew.
type rule struct {
	verb  verb
	delay time.Duration // of every chunk that arrives under this rule
	bytes int           // what cut still lets through, per connection
}

// New starts a proxy to target, a "host:port", on a free port of 127.0.0.1. The
// target is dialed anew for each connection and need not be up yet. The caller
// must call Close.
func New(target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("fault proxy: target must be host:port: %w", err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	p := &Proxy{
		listener: listener,
		closing:  make(chan struct{}),
		target:   target,
		rule:     &rule{},
		replaced: make(chan struct{}),
		links:    make(map[*link]struct{}),
	}
	p.running.Go(p.accept)
	return p, nil
}

// Addr is the "host:port" for clients to connect to. It stays the same until
// Close, whatever verb is in force.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close resets all connections and frees the port. When it returns, no goroutine
// of the proxy is left. Further calls, and verbs after it, do nothing.
func (p *Proxy) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.closing)
		_ = p.listener.Close() // nothing to save, and nobody to tell
		p.resetLinks()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// Pass lets everything through, first what Blackhole withheld.
func (p *Proxy) Pass() { p.set(&rule{}) }

// Refuse resets all open connections, on both sides, and every new one right
// after the kernel has accepted it: a client sees a reset in its connect or, when
// it was quick, in its first read or write. Refuse followed by Pass is a short
// network failure.
func (p *Proxy) Refuse() { p.set(&rule{verb: refuse}) }

// Blackhole keeps open and new connections open and lets nothing through in
// either direction, not even the news that one end has closed. The target does
// not see new connections. Nothing is lost: all of it arrives under the next
// verb that lets bytes flow, as TCP's retransmissions do after a partition.
func (p *Proxy) Blackhole() { p.set(&rule{verb: blackhole}) }

// Delay makes every chunk in each direction late by d: a round trip takes 2d
// longer, while the throughput is not limited. A chunk keeps the delay that was
// in force when it arrived, and never overtakes an earlier one.
func (p *Proxy) Delay(d time.Duration) { p.set(&rule{delay: d}) }

// Cut lets n more bytes of the target's answers through on each connection, and
// then closes that connection in place of the next byte. With 0, a request
// reaches the target, is executed, and its answer is never seen. It goes for new
// connections too: a server that greets its clients gets n bytes of that out.
func (p *Proxy) Cut(n int) { p.set(&rule{verb: cut, bytes: max(n, 0)}) }

// SetTarget sends new connections to another "host:port", as when a name fails
// over to another server. Open connections stay with the old target.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Open is the number of connections now open. One that Blackhole holds counts,
// though its client may have given it up.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Accepted is the number of connections that clients have made so far, refused
// ones included: it tells a test that a client has tried again.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

func (p *Proxy) set(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = r
	close(p.replaced)
	p.replaced = make(chan struct{})
	if r.verb == refuse {
		p.resetLinks()
	}
}

// resetLinks needs p.mu. The links leave p.links when their goroutines end.
func (p *Proxy) resetLinks() {
	for l := range p.links {
		l.reset()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.AcceptTCP()
		if err != nil {
			select {
			case <-p.closing:
				return
			case <-time.After(acceptRetry):
				continue
			}
		}
		p.admit(client)
	}
}

// admit registers a connection, or resets it, in one step with looking at the
// rule: no connection slips past a Refuse or a Close that happens meanwhile.
func (p *Proxy) admit(client *net.TCPConn) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{client: client, done: ctx.Done(), cancel: cancel}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	if p.closed || p.rule.verb == refuse {
		l.reset()
		return
	}
	p.links[l] = struct{}{}
	p.running.Go(func() {
		p.serve(ctx, l)
		l.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}

// current is the rule for a byte that has just arrived.
func (p *Proxy) current() *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rule
}

// flowing waits until bytes may flow and returns the rule they flow under, or
// nil when done was closed first.
func (p *Proxy) flowing(done <-chan struct{}) *rule {
	for {
		p.mu.Lock()
		r, replaced := p.rule, p.replaced
		p.mu.Unlock()
		if r.verb != blackhole {
			return r
		}
		select {
		case <-replaced:
		case <-done:
			return nil
		}
	}
}

// dial connects to the target as it is now.
func (p *Proxy) dial(ctx context.Context) (*net.TCPConn, error) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil // what "tcp" always yields
}
