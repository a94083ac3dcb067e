package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// chunkSize is what one read takes at most.
	chunkSize = 32 << 10
	// queueLength bounds, in chunks, what a direction holds back. Beyond it the
	// sender meets a full window, as it would on a real network.
	queueLength = 256
)

// link is one client's connection with its counterpart to the target.
type link struct {
	client *net.TCPConn
	done   <-chan struct{} // closed by cancel
	cancel context.CancelFunc

	mu     sync.Mutex
	server *net.TCPConn // nil until dialed
	ended  bool
}

// chunk is what one read returned: bytes, or the error that ended the stream.
type chunk struct {
	data []byte
	err  error
	due  time.Time
}

// attach adds the target's side, or reports that the link has ended meanwhile.
func (l *link) attach(server *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

// reset ends the link so that both ends see "connection reset by peer".
func (l *link) reset() { l.end(true) }

// close ends the link so that both ends first get what was already written.
func (l *link) close() { l.end(false) }

func (l *link) end(abruptly bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.cancel()
	for _, conn := range []*net.TCPConn{l.client, l.server} {
		if conn == nil {
			continue
		}
		if abruptly {
			_ = conn.SetLinger(0) // turns the close into a reset
		}
		_ = conn.Close() // what a dead connection has to say is of no use
	}
}

// serve runs a link until both directions have ended.
func (p *Proxy) serve(ctx context.Context, l *link) {
	// Behind a partition the target must not see the connection either.
	if p.flowing(l.done) == nil {
		return
	}
	server, err := p.dial(ctx)
	if err != nil {
		l.reset()
		return
	}
	if !l.attach(server) {
		return
	}
	var directions sync.WaitGroup
	for _, d := range []direction{
		{link: l, from: l.client, to: server},
		{link: l, from: server, to: l.client, answers: true},
	} {
		queue := make(chan chunk, queueLength)
		directions.Go(func() { p.receive(d, queue) })
		directions.Go(func() { p.deliver(d, queue) })
	}
	directions.Wait()
}

type direction struct {
	link     *link
	from, to *net.TCPConn
	answers  bool // from the target to the client
}

// receive reads apart from deliver, so that a delay makes bytes late without
// making them fewer, and a partition does not block the sender at once.
func (p *Proxy) receive(d direction, queue chan<- chunk) {
	buf := make([]byte, chunkSize)
	for {
		n, err := d.from.Read(buf)
		due := time.Now().Add(p.current().delay)
		for _, c := range []chunk{{data: bytes.Clone(buf[:n]), due: due}, {err: err, due: due}} {
			if len(c.data) == 0 && c.err == nil {
				continue
			}
			select {
			case queue <- c:
			case <-d.link.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) deliver(d direction, queue <-chan chunk) {
	var counted *rule // the Cut that left belongs to
	var left int
	for {
		c, ok := next(queue, d.link.done)
		if !ok {
			return
		}
		r := p.flowing(d.link.done)
		if r == nil {
			return
		}
		if c.err != nil {
			// The end of a stream is late, or withheld, like its bytes.
			if !errors.Is(c.err, io.EOF) || d.to.CloseWrite() != nil {
				d.link.reset()
			}
			return
		}
		if d.answers && r.verb == cut {
			if r != counted {
				counted, left = r, r.bytes
			}
			if len(c.data) > left {
				_, _ = d.to.Write(c.data[:left])
				d.link.close()
				return
			}
			left -= len(c.data)
		}
		if _, err := d.to.Write(c.data); err != nil {
			d.link.reset()
			return
		}
	}
}

// next returns the next chunk once it is due, or false when the link has ended.
func next(queue <-chan chunk, done <-chan struct{}) (chunk, bool) {
	var c chunk
	select {
	case c = <-queue:
	case <-done:
		return chunk{}, false
	}
	wait := time.Until(c.due)
	if wait <= 0 {
		return c, true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return c, true
	case <-done:
		return chunk{}, false
	}
}
