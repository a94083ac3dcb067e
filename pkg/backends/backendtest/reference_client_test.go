package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// referenceBackend is the reference's client.
type referenceBackend struct {
	contender election.Contender
	addr      string
	mistake   string
	seen      uint64

	closed chan struct{}
	close  sync.Once
	conn   wire // belongs to the call in flight
	mu     sync.Mutex
}

// wire is a connection; the zero wire is none.
type wire struct {
	net.Conn
	in  *json.Decoder
	out *json.Encoder
}

// watchedBackend is a referenceBackend with hints.
type watchedBackend struct{ *referenceBackend }

var errClosed = errors.New("closed")

func openReference(addr, mistake string, c election.Contender) (*referenceBackend, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	b := &referenceBackend{contender: c, addr: addr, mistake: mistake, closed: make(chan struct{})}
	if b.is("open connects") {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
		}
	}
	return b, nil
}

func (b *referenceBackend) is(mistake string) bool { return b.mistake == mistake }

func (b *referenceBackend) Acquire(ctx context.Context) (election.Lease, error) {
	q := request{Verb: acquire}
	if b.is("acquire reads before it writes") {
		lease, err := b.call(ctx, request{Verb: observe})
		if err != nil || lease.Holder != "" && lease.Holder != b.contender.Identity {
			return lease, err
		}
		q.Blind = lease.Holder == ""
		time.Sleep(20 * time.Millisecond) // as if the network took it
	}
	return b.call(ctx, q)
}

func (b *referenceBackend) Renew(ctx context.Context, token uint64) (election.Lease, error) {
	return b.call(ctx, request{Verb: renew, Token: token})
}

func (b *referenceBackend) Release(ctx context.Context, token uint64) error {
	_, err := b.call(ctx, request{Verb: release, Token: token})
	return err
}

func (b *referenceBackend) Observe(ctx context.Context) (election.Lease, error) {
	return b.call(ctx, request{Verb: observe})
}

// Close ends calls, and returns when they have ended.
func (b *referenceBackend) Close() error {
	b.close.Do(func() {
		if b.is("close releases the term") {
			_ = b.Release(context.Background(), 0)
		}
		if b.is("close leaks a goroutine") {
			go func() { select {} }()
		}
		if !b.is("calls go on after close") {
			close(b.closed)
		}
		if b.is("close leaks the connection") {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.conn.Conn != nil {
			_ = b.conn.Close()
		}
	})
	return nil
}

// call makes one call over the connection that there is, or a new one.
func (b *referenceBackend) call(ctx context.Context, q request) (election.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx, cancel := b.until(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return election.Lease{}, err
	}
	q.Mutex, q.Identity, q.Lease, q.Seen = b.contender.Mutex, b.contender.Identity, b.contender.Lease(), b.seen
	if b.conn.Conn == nil {
		conn, err := b.dial(ctx)
		if err != nil {
			return election.Lease{}, err
		}
		b.conn = conn
	}
	answer, err := b.conn.exchange(ctx, q)
	if err != nil {
		if conn := b.conn.Conn; b.is("a connection is used again after an error") && ctx.Err() != nil {
			b.conn = newWire(conn)
		} else {
			_ = conn.Close()
			b.conn = wire{}
		}
		if b.is("a broken connection means free") && ctx.Err() == nil {
			return election.Lease{}, nil
		}
		return election.Lease{}, err
	}
	b.seen = max(b.seen, answer.Token)
	return election.Lease{Holder: answer.Holder, Token: answer.Token, Remaining: answer.Remaining, Lapsed: answer.Lapsed}, nil
}

// until returns a context that ends with the Backend too.
func (b *referenceBackend) until(ctx context.Context) (context.Context, context.CancelFunc) {
	if b.is("calls ignore their context") {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-b.closed:
			cancel(errClosed)
		case <-ctx.Done():
		}
	}()
	select {
	case <-b.closed:
		cancel(errClosed)
	default:
	}
	return ctx, func() { cancel(nil) }
}

func (b *referenceBackend) dial(ctx context.Context) (wire, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", b.addr)
	if err != nil {
		return wire{}, err
	}
	return newWire(conn), nil
}

func newWire(conn net.Conn) wire { return wire{conn, json.NewDecoder(conn), json.NewEncoder(conn)} }

func (w wire) exchange(ctx context.Context, q request) (response, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() {
			_ = w.SetDeadline(time.Time{})
		}
	}()
	if err := w.out.Encode(q); err != nil {
		return response{}, errors.Join(err, ctx.Err())
	}
	var answer response
	if err := w.in.Decode(&answer); err != nil {
		return response{}, errors.Join(err, ctx.Err())
	}
	if !answer.Complete {
		return response{}, errors.New("not an answer")
	}
	return answer, nil
}

func (b watchedBackend) Exclusive() bool { return false }

func (b watchedBackend) Watch(ctx context.Context, notify func()) error {
	if b.is("a watch ignores its context") {
		ctx = context.WithoutCancel(ctx)
	}
	asked := ctx
	if !b.is("a watch outlives its backend") {
		var cancel context.CancelFunc
		ctx, cancel = b.until(ctx)
		defer cancel()
	}
	conn, err := b.dial(ctx)
	if err != nil {
		return errors.Join(asked.Err(), err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := conn.out.Encode(request{Verb: watchVerb, Mutex: b.contender.Mutex}); err != nil {
		return errors.Join(asked.Err(), err)
	}
	for {
		var answer response
		if err := conn.in.Decode(&answer); err != nil {
			if b.is("a watch hides that it broke") {
				<-asked.Done()
			}
			return errors.Join(asked.Err(), err)
		}
		notify()
	}
}
