package httpstatus

import (
	"sync"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

const (
	maxWaiting = 64 // requests: each holds a connection, two goroutines and a buffer
	backlog    = 16 // changes that one of them may be behind
)

// Hub tells requests that wait of every change. The zero Hub is ready for use.
type Hub struct {
	mu      sync.Mutex
	last    election.State
	known   bool
	waiting map[*waiter]struct{}
}

// waiter is one request.
type waiter struct {
	changes chan election.State // closed when the request is too far behind
}

// Publish takes every State, in order, and passes on what is more than a renewal. It never blocks: who
// is too far behind is dropped.
func (h *Hub) Publish(s election.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known && s.Revision == h.last.Revision && s.Status == h.last.Status {
		return
	}
	h.last, h.known = s, true
	for w := range h.waiting {
		select {
		case w.changes <- s:
		default:
			close(w.changes)
			delete(h.waiting, w)
		}
	}
}

// join adds a request, unless too many wait already. It is not told of what was published before.
func (h *Hub) join() (*waiter, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiting) >= maxWaiting {
		return nil, false
	}
	if h.waiting == nil {
		h.waiting = make(map[*waiter]struct{})
	}
	w := &waiter{changes: make(chan election.State, backlog)}
	h.waiting[w] = struct{}{}
	return w, true
}

func (h *Hub) leave(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, w)
}
