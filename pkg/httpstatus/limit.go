package httpstatus

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// limit is a Listener with a limit of open connections. When it is reached, a new one takes the place
// of the one that has been without a request for the longest: a client that forgets its connections, or
// opens them and says nothing, must not keep a probe out. Only when all are being answered is the new
// one turned away.
type limit struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[*conn]struct{}
}

// conn is one connection. limit.mu guards its fields.
type conn struct {
	net.Conn
	limit *limit
	quiet time.Time // without a request since; zero while one is being answered
}

func newLimit(l net.Listener, most int) *limit {
	return &limit{Listener: l, most: most, open: make(map[*conn]struct{})}
}

// Accept returns the next connection that there is room for.
func (l *limit) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, limit: l, quiet: time.Now()}
		gone, ok := l.admit(c)
		if !ok {
			_ = accepted.Close()
			continue
		}
		if gone != nil {
			_ = gone.Close()
		}
		return c, nil
	}
}

// admit makes room for c and returns the connection that has to go for it, or nil.
func (l *limit) admit(c *conn) (gone *conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		for o := range l.open {
			if !o.quiet.IsZero() && (gone == nil || o.quiet.Before(gone.quiet)) {
				gone = o
			}
		}
		if gone == nil {
			return nil, false
		}
		delete(l.open, gone)
	}
	l.open[c] = struct{}{}
	return gone, true
}

func (c *conn) Close() error {
	c.limit.mu.Lock()
	delete(c.limit.open, c)
	c.limit.mu.Unlock()
	return c.Conn.Close()
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// count marks a request's connection as in use while h answers it.
func (l *limit) count(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			l.mark(c, time.Time{})
			defer func() { l.mark(c, time.Now()) }()
		}
		h.ServeHTTP(w, r)
	})
}

func (l *limit) mark(c *conn, quiet time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.quiet = quiet
}
