package httpstatus_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
	"github.com/simba-sidecar/simba-sidecar/pkg/httpstatus"
)

// asked is a request that has not been answered when the test goes on.
type asked struct {
	w    *recorder
	done chan struct{}
	stop context.CancelFunc
}

func askLater(t *testing.T, h http.Handler, target string) *asked {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	a := &asked{w: &recorder{ResponseRecorder: httptest.NewRecorder()}, done: make(chan struct{}), stop: stop}
	r := httptest.NewRequestWithContext(ctx, "GET", target, nil)
	go func() {
		defer close(a.done)
		h.ServeHTTP(a.w, r)
	}()
	t.Cleanup(func() { stop(); <-a.done })
	return a
}

// recorder can be read while a handler goes on writing.
type recorder struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ResponseRecorder.Write(p)
}

// take returns what was written since the last take.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.Body.Reset()
	return r.Body.String()
}

// answered reports whether the answer is there at the bubble's present time.
func (a *asked) answered() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func after(e *election.Elector) string {
	return fmt.Sprintf("/leader?wait=30s&after=%d", e.State().Revision)
}

func TestLongPollAnswersWhenTheStateChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &httpstatus.Hub{}
		e, s := leading(t, publish(hub.Publish))
		h := httpstatus.New(e, &httpstatus.Options{Hub: hub})
		if w := ask(t, h, "GET", "/leader?wait=30s&after=1"); w.Code != http.StatusOK {
			t.Errorf("another revision has to be answered at once: %d", w.Code)
		}

		a := askLater(t, h, after(e))
		time.Sleep(20 * time.Second) // some renewals
		if a.answered() {
			t.Fatalf("answered without a change: %d %s", a.w.Code, a.w.Body)
		}
		s.set(func(s *store) { s.holder = "web-1_00000000" })
		time.Sleep(contender.TTL)
		if !a.answered() || a.w.Code != http.StatusServiceUnavailable || fields(t, a.w.ResponseRecorder)["holder"] != "web-1_00000000" {
			t.Errorf("after a change: %d %s", a.w.Code, a.w.Body)
		}

		a = askLater(t, h, after(e))
		time.Sleep(30*time.Second - 1)
		if a.answered() {
			t.Errorf("answered before its time: %d %s", a.w.Code, a.w.Body)
		}
		time.Sleep(1)
		if !a.answered() || a.w.Code != http.StatusServiceUnavailable {
			t.Errorf("not answered in time: %d %s", a.w.Code, a.w.Body)
		}
	})
}

func TestLongPollEndsByTheClockAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &httpstatus.Hub{}
		e, _ := leading(t, nil)
		frozen := still{state: e.State()} // nobody publishes its end
		h := httpstatus.New(frozen, &httpstatus.Options{Hub: hub})
		a := askLater(t, h, after(e))
		if a.answered() {
			t.Fatal("answered at once")
		}
		time.Sleep(contender.TTL + time.Second)
		if !a.answered() || a.w.Code != http.StatusServiceUnavailable {
			t.Errorf("after the deadline: %d %s", a.w.Code, a.w.Body)
		}
	})
}

func TestLongPollRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	h := httpstatus.New(standby(), &httpstatus.Options{Hub: &httpstatus.Hub{}})
	for query, remedy := range map[string]string{
		"wait=30&after=5":       "write wait=30s",
		"wait=soon&after=5":     "write wait=30s",
		"wait=-1s&after=5":      "write wait=30s",
		"wait=0s&after=5":       "write wait=30s",
		"wait=61s&after=5":      "write wait=30s",
		"after=5":               "write wait=30s",
		"wait=30s":              "the revision of the body",
		"wait=30s&after=newest": "the revision of the body",
		"wait=30s&after=-1":     "the revision of the body",
	} {
		if w := ask(t, h, "GET", "/leader?"+query); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), remedy) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	for _, target := range []string{"/leader?wait=60s&after=5", "/leader?probe=1"} {
		if w := ask(t, h, "GET", target); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

func TestTooManyWaitingRequestsAreTurnedAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &httpstatus.Hub{}
		h := httpstatus.New(standby(), &httpstatus.Options{Hub: hub})
		var waiting []*asked
		for range 64 {
			waiting = append(waiting, askLater(t, h, "/leader?wait=30s&after=41"))
		}
		synctest.Wait()
		for _, target := range []string{"/leader?wait=30s&after=41", "/events"} {
			if w := ask(t, h, "GET", target); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: %d", target, w.Code)
			}
		}
		if w := ask(t, h, "GET", "/leader"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a plain request: %d", w.Code)
		}
		waiting[0].stop() // a client that is gone makes room
		<-waiting[0].done
		if a := askLater(t, h, "/leader?wait=30s&after=41"); a.answered() {
			t.Errorf("after one has gone: %d", a.w.Code)
		}
	})
}

func TestPublishWaitsForNoClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &httpstatus.Hub{}
		s := standby()
		h := httpstatus.New(s, &httpstatus.Options{Hub: hub})
		w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), resume: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/events", nil))
		}()
		synctest.Wait()
		for range 1000 {
			s.state.Revision++
			hub.Publish(s.state)
		}
		close(w.resume)
		<-done // dropped: it missed changes
		if n := strings.Count(w.Body.String(), "event: state"); n < 1 || n > 20 {
			t.Errorf("%d events kept for a client that does not read", n)
		}
	})
}

// stuckWriter writes nothing before resume is closed.
type stuckWriter struct {
	*httptest.ResponseRecorder
	resume chan struct{}
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	<-w.resume
	return w.ResponseRecorder.Write(p)
}

func TestEventsTellEveryChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &httpstatus.Hub{}
		e, s := leading(t, publish(hub.Publish))
		a := askLater(t, httpstatus.New(e, &httpstatus.Options{Hub: hub}), "/events")
		expectEvents(t, a, `"leader":true,"state":"leader"`)
		time.Sleep(9 * time.Second) // renewals only
		expectEvents(t, a)
		s.set(func(s *store) { s.holder, s.token = "web-1_00000000", 18 })
		time.Sleep(contender.TTL)
		expectEvents(t, a, `"leader":false,"state":"standby","mutex":"orders","identity":"web-0_k3f9q2ab","holder":"web-1_00000000","name":"web-1","token":18`)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(a.w.take(), ": alive\n\n"); n < 4 || n > 5 {
			t.Errorf("%d heartbeats in a minute", n)
		}
		if a.w.Header().Get("Content-Type") != "text/event-stream" || a.w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("headers: %v", a.w.Header())
		}
	})
}

func TestEventsEndLeadingByTheClockAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &httpstatus.Hub{}
		e, _ := leading(t, nil)
		frozen := still{state: e.State()}
		a := askLater(t, httpstatus.New(frozen, &httpstatus.Options{Hub: hub}), "/events")
		expectEvents(t, a, `"leader":true`)
		time.Sleep(contender.TTL + time.Second)
		expectEvents(t, a, `"leader":false,"state":"unknown"`)
		hub.Publish(frozen.State()) // what the elector says a little later
		expectEvents(t, a)
	})
}

func TestRenewalsLeaveNobodyBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &httpstatus.Hub{}
		s := standby()
		h := httpstatus.New(s, &httpstatus.Options{Hub: hub})
		w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), resume: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/events", nil))
		}()
		synctest.Wait()
		for range 1000 {
			hub.Publish(s.state)
		}
		close(w.resume)
		synctest.Wait()
		select {
		case <-done:
			t.Error("dropped although nothing has changed")
		default:
		}
		cancel()
		<-done
	})
}

// changing is a Source that the test changes.
type changing struct {
	still
	now atomic.Pointer[election.State]
}

func (c *changing) State() election.State { return c.now.Load().Current() }

func TestEventsSkipALeadershipThatIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := leading(t, nil)
		led := e.State()
		before, now := standby().state, standby().state
		before.Revision, now.Revision = led.Revision-1, led.Revision+1
		hub, c := &httpstatus.Hub{}, &changing{}
		c.now.Store(&before)
		a := askLater(t, httpstatus.New(c, &httpstatus.Options{Hub: hub}), "/events")
		expectEvents(t, a, `"leader":false`)
		c.now.Store(&now) // before the stream has seen that it led
		hub.Publish(led)
		expectEvents(t, a)
		hub.Publish(now)
		expectEvents(t, a, `"leader":false`)
	})
}

func TestEventsNeverSayLeadingAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &httpstatus.Hub{}
		e, s := leading(t, nil)
		led := e.State()
		s.set(func(s *store) { s.down = errors.New("connection refused") })
		time.Sleep(contender.Lease())
		a := askLater(t, httpstatus.New(e, &httpstatus.Options{Hub: hub}), "/events")
		expectEvents(t, a, `"leader":false`)
		hub.Publish(led) // late in the queue
		expectEvents(t, a)
	})
}

// expectEvents checks that the stream has got these events, by a part of their data, and no more.
func expectEvents(t *testing.T, a *asked, want ...string) {
	t.Helper()
	if a.answered() {
		t.Fatalf("the stream has ended: %d %s", a.w.Code, a.w.Body)
	}
	var got []string
	for event := range strings.SplitSeq(a.w.take(), "\n\n") {
		if strings.HasPrefix(event, "event: state\nid: ") {
			got = append(got, event)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d: %q", len(got), len(want), got)
	}
	for i := range got {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("event %q, want %q in it", got[i], want[i])
		}
	}
}
