package httpstatus

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// maxWait bounds a long poll: proxies and clients give up on silent connections after about a minute.
const maxWait = time.Minute

// wait holds back a request with ?wait=DURATION until the state's revision differs from ?after=REVISION,
// the duration has passed or the client is gone. It reports false if it has answered itself.
func (h *handler) wait(w http.ResponseWriter, r *http.Request) bool {
	limit, after, err := waitParams(r)
	if err != nil {
		answerText(w, http.StatusBadRequest, err.Error())
		return false
	}
	if limit == 0 {
		return true
	}
	if h.hub == nil {
		answerText(w, http.StatusNotImplemented, "this server does not hold back answers: leave out wait and ask again later")
		return false
	}
	waiter, ok := h.hub.join()
	if !ok {
		refuse(w)
		return false
	}
	defer h.hub.leave(waiter)
	unbound(w, limit)
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		s := h.source.State()
		if s.Revision != after {
			return true
		}
		over, stop := expiry(s)
		select {
		case <-over:
		case _, ok = <-waiter.changes:
		case <-timeout.C:
			ok = false
		case <-r.Context().Done():
			ok = false
		}
		stop()
		if !ok {
			return true
		}
	}
}

func waitParams(r *http.Request) (limit time.Duration, after uint64, err error) {
	if r.URL.RawQuery == "" {
		return 0, 0, nil
	}
	query := r.URL.Query()
	if !query.Has("wait") && !query.Has("after") {
		return 0, 0, nil
	}
	limit, err = time.ParseDuration(query.Get("wait"))
	if err != nil || limit <= 0 || limit > maxWait {
		return 0, 0, fmt.Errorf("wait=%q is not a duration of up to %v: write wait=30s", query.Get("wait"), maxWait)
	}
	after, err = strconv.ParseUint(query.Get("after"), 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("after=%q is not a revision: write the revision of the body that you have, or 0 to get one at once", query.Get("after"))
	}
	return limit, after, nil
}

// expiry returns a channel that says when s, if it leads, has run out: nobody may publish that.
func expiry(s election.State) (<-chan time.Time, func()) {
	if s.Status != election.Leader {
		return nil, func() {}
	}
	t := time.NewTimer(s.Remaining())
	return t.C, func() { t.Stop() }
}

// unbound lets the answer to a request that takes up to d by design begin that much later. Not every
// ResponseWriter has a time-out.
func unbound(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + writeTimeout))
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	answerText(w, http.StatusTooManyRequests, fmt.Sprintf("%d requests wait already: close some, or ask without wait", maxWaiting))
}
