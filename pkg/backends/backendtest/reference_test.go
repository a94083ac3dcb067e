package backendtest

import (
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// reference is the simplest server that honours the contract: rows behind one lock. Nobody elects on it:
// it is what the suite itself is tested with, once correct and then with one mistake after another.
type reference struct {
	mistake string
	running sync.WaitGroup

	mu        sync.Mutex
	listener  net.Listener
	forgetful bool
	conns     map[net.Conn]struct{}
	rows      map[string]row
	watchers  map[string]map[chan struct{}]struct{}
}

type row struct {
	holder         string
	token          uint64
	since, expires time.Time
}

// The protocol: a request and its response, in turn. A watch is answered again and again.
type (
	request struct {
		Verb            verb
		Mutex, Identity string
		Token, Seen     uint64
		Lease           time.Duration
		Blind           bool // take the mutex without looking at it
	}
	response struct {
		Holder    string
		Token     uint64
		Remaining time.Duration
		Lapsed    bool
		Complete  bool // tells an answer from nothing
	}
)

const watchVerb verb = "watch"

func startReference(t testing.TB, mistake string) *reference {
	t.Helper()
	r := &reference{
		mistake:  mistake,
		conns:    map[net.Conn]struct{}{},
		rows:     map[string]row{},
		watchers: map[string]map[chan struct{}]struct{}{},
	}
	r.start(t, "127.0.0.1:0")
	t.Cleanup(r.stop)
	return r
}

// is reports whether the server is to make that mistake.
func (r *reference) is(mistake string) bool { return r.mistake == mistake }

func (r *reference) addr() string { return r.listener.Addr().String() }

func (r *reference) start(t testing.TB, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	r.listener = l
	r.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns[conn] = struct{}{}
			r.mu.Unlock()
			r.running.Go(func() { r.serve(conn) })
		}
	})
}

func (r *reference) stop() {
	_ = r.listener.Close()
	r.mu.Lock()
	for conn := range r.conns {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

func (r *reference) restart(t testing.TB) {
	t.Helper()
	addr := r.addr()
	r.stop()
	if r.is("a restart loses the leases") {
		clear(r.rows)
	}
	r.start(t, addr)
}

func (r *reference) loseData(testing.TB) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.rows)
	r.forgetful = r.is("tokens do not outlive the data")
}

func (r *reference) deleteMutex(_ testing.TB, mutex string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.rows, mutex)
}

func (r *reference) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, conn)
	}()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var q request
		if in.Decode(&q) != nil {
			return
		}
		if q.Verb == watchVerb {
			r.watch(conn, out, q.Mutex)
			return
		}
		if out.Encode(r.execute(q, time.Now())) != nil {
			return
		}
	}
}

// watch answers once when the subscription stands, and then after every change, until the client closes
// the connection.
func (r *reference) watch(conn net.Conn, out *json.Encoder, mutex string) {
	changed := make(chan struct{}, 1)
	r.mu.Lock()
	if r.watchers[mutex] == nil {
		r.watchers[mutex] = map[chan struct{}]struct{}{}
	}
	r.watchers[mutex][changed] = struct{}{}
	r.mu.Unlock()
	gone := make(chan struct{})
	r.running.Go(func() {
		defer close(gone)
		_, _ = conn.Read(make([]byte, 1))
	})
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers[mutex], changed)
	}()
	if !r.is("a watch does not say that it stands") {
		changed <- struct{}{}
	}
	started := time.Now()
	for {
		select {
		case <-changed:
			if r.is("a watch dies in silence") && time.Since(started) > 2*time.Second {
				continue
			}
			if out.Encode(response{Complete: true}) != nil {
				return
			}
		case <-gone:
			return
		}
	}
}

func (r *reference) execute(q request, now time.Time) response {
	r.mu.Lock()
	defer r.mu.Unlock()
	q = r.mangle(q)
	old, known := r.rows[q.Mutex]
	if !known && !r.forgetful && !r.is("tokens do not outlive the mutex") {
		old.token = uint64(now.UnixMilli())
	}
	live := r.live(old, q, now)
	s, granted := r.decide(q, old, live, now)
	if s != old {
		r.rows[q.Mutex] = s
	}
	if (s.holder != old.holder || s.token != old.token) && (s.holder != "" || !r.is("a watch does not notify after a release")) {
		for w := range r.watchers[q.Mutex] {
			select {
			case w <- struct{}{}:
			default:
			}
		}
	}
	answer := response{Complete: true}
	switch {
	case granted:
		answer.Holder, answer.Token, answer.Remaining = s.holder, s.token, q.Lease
		if live && r.is("a grant is computed from a read") {
			answer.Remaining = old.expires.Sub(now)
		}
	case live && s.holder != "":
		answer.Holder, answer.Token, answer.Remaining = s.holder, s.token, s.expires.Sub(now)
	default:
		answer.Lapsed = s.holder != "" || r.is("a released mutex has lapsed")
	}
	return answer
}

// mangle makes the mistakes about names.
func (r *reference) mangle(q request) request {
	switch {
	case r.is("mutexes that differ in case are one"):
		q.Mutex = strings.ToLower(q.Mutex)
	case r.is("identities that differ in case are one"):
		q.Identity = strings.ToLower(q.Identity)
	case r.is("spaces at the end of an identity are lost"):
		q.Identity = strings.TrimSpace(q.Identity)
	case r.is("long names are cut"):
		q.Mutex = q.Mutex[:min(len(q.Mutex), 64)]
	}
	return q
}

func (r *reference) live(s row, q request, now time.Time) bool {
	switch {
	case r.is("leases end early"):
		now = now.Add(300 * time.Millisecond)
	case r.is("the asker's lease counts") && s.holder != q.Identity:
		s.expires = s.since.Add(q.Lease)
	}
	return s.holder != "" && now.Before(s.expires)
}

// decide returns what becomes of a row, and whether that grants the caller a term.
func (r *reference) decide(q request, s row, live bool, now time.Time) (row, bool) {
	mine := s.holder == q.Identity
	expires := now.Add(q.Lease)
	extend := func(mistake string) (row, bool) {
		if expires.After(s.expires) || r.is(mistake) {
			s.expires = expires
		}
		return s, true
	}
	switch q.Verb {
	case acquire:
		switch {
		case q.Blind, !live, mine && r.is("an own lease is not adopted"):
			next := row{q.Identity, 1 + max(s.token, q.Seen), now, expires}
			if r.is("a new term has no new token") || mine && r.is("an own expired lease is adopted") {
				next.token = max(1, s.token)
			}
			return next, true
		case mine:
			if r.is("adoption raises the token") {
				s.token++
			}
			return extend("adoption moves the expiry back")
		case r.is("asking in vain prolongs a lease"):
			s.expires = expires
		}
	case renew:
		if r.is("a renewal raises the token") && mine && live && q.Token == s.token {
			s.token++
		}
		if (live || r.is("a renewal revives an expired term")) &&
			(mine || r.is("a renewal ignores the owner")) &&
			(q.Token == s.token || r.is("a renewal ignores the token") || r.is("a renewal raises the token")) {
			return extend("a renewal moves the expiry back")
		}
		if r.is("a refused renewal prolongs the term") && mine {
			s.expires = expires
		}
	case release:
		if (mine || r.is("a release ignores the owner")) &&
			(q.Token == 0 && !r.is("a release needs a token") || q.Token == s.token || r.is("a release ignores the token")) {
			s = row{token: s.token}
		}
		if s.holder == "" && r.is("a release loses the token") {
			s.token = 0
		}
	case observe:
		if r.is("looking prolongs a lease") && mine && live {
			s.expires = expires
		}
	}
	return s, false
}
