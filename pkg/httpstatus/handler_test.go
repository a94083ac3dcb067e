package httpstatus_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
	"github.com/simba-sidecar/simba-sidecar/pkg/httpstatus"
)

// ask sends one request to h, with pairs of header names and values.
func ask(t *testing.T, h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	r.Host = "localhost:4040"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func fields(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	d := json.NewDecoder(w.Body)
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestStandbyAnswers503AndWhoLeads(t *testing.T) {
	t.Parallel()
	h := httpstatus.New(standby(), &httpstatus.Options{Backend: "mysql"})
	w := ask(t, h, "GET", "/leader")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Content-Type") != "application/json" ||
		w.Header().Get("Cache-Control") != "no-store" || w.Header().Values("Simba-Token") != nil {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	want := map[string]any{
		"leader": false, "state": "standby", "mutex": "orders", "identity": "web-0_k3f9q2ab",
		"holder": "web-1_00000000", "name": "web-1", "token": json.Number("6"), "since": "2026-02-03T03:05:06.789Z",
		"revision": json.Number("41"), "backend": "mysql",
	}
	if diff := cmp.Diff(want, fields(t, w)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotKnownIsAbsent(t *testing.T) {
	t.Parallel()
	s := still{state: election.State{Mutex: "orders", Identity: "web-0_k3f9q2ab", Status: election.Unknown, Reason: "store: refused"}}
	want := map[string]any{
		"leader": false, "state": "unknown", "reason": "store: refused", "mutex": "orders",
		"identity": "web-0_k3f9q2ab", "revision": json.Number("0"),
	}
	if diff := cmp.Diff(want, fields(t, ask(t, httpstatus.New(s, nil), "GET", "/leader"))); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestLeaderAnswers200UntilItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, s := leading(t, nil)
		h := httpstatus.New(e, &httpstatus.Options{Backend: "mysql"})
		w := ask(t, h, "GET", "/leader")
		if w.Code != http.StatusOK || w.Header().Get("Simba-Token") != "17" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		got := fields(t, w)
		if at, err := time.Parse("2006-01-02T15:04:05.000Z", got["expiresAt"].(string)); err != nil || time.Until(at) <= 0 || time.Until(at) > contender.TTL {
			t.Errorf("expiresAt is %v (%v)", got["expiresAt"], err)
		}
		if got["leader"] != true || got["state"] != "leader" || got["token"] != json.Number("17") || got["holder"] != contender.Identity {
			t.Errorf("body: %v", got)
		}

		// The same State, asked again when it has run out and nobody has said so.
		old := still{state: e.State()}
		frozen := httpstatus.New(old, nil)
		if code := ask(t, frozen, "GET", "/leader").Code; code != http.StatusOK {
			t.Errorf("before the deadline: %d", code)
		}
		s.set(func(s *store) { s.down = errors.New("connection refused") })
		for old.state.Leading() {
			time.Sleep(old.state.Remaining())
		}
		w = ask(t, frozen, "GET", "/leader")
		body := fields(t, w)
		if w.Code != http.StatusServiceUnavailable || w.Header().Values("Simba-Token") != nil || body["leader"] != false || body["expiresAt"] != nil {
			t.Errorf("after the deadline: %d %v %v", w.Code, w.Header(), body)
		}
	})
}

func TestHeadHasTheHeadersOfGet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := leading(t, nil)
		h := httpstatus.New(e, nil)
		get, head := ask(t, h, "GET", "/leader"), ask(t, h, "HEAD", "/leader")
		if diff := cmp.Diff(get.Header(), head.Header()); diff != "" || get.Code != head.Code {
			t.Errorf("GET %d, HEAD %d, headers:\n%s", get.Code, head.Code, diff)
		}
		if n := strconv.Itoa(get.Body.Len()); get.Header().Get("Content-Length") != n {
			t.Errorf("Content-Length %s for %s bytes", get.Header().Get("Content-Length"), n)
		}
	})
}

func TestPlainTextForThoseWhoPreferIt(t *testing.T) {
	t.Parallel()
	h := httpstatus.New(standby(), nil)
	for accept, text := range map[string]bool{
		"":                                   false,
		"text/plain":                         true,
		"*/*":                                false,
		"text/*":                             false,
		"application/json, text/plain, */*":  false, // what browsers' HTTP libraries send
		"text/plain, application/json":       true,
		"text/plain;q=0.5, application/json": false,
		"application/json;q=0.1,text/plain;q=0.2": true,
		"text/plain;q=0":                   false,
		"TEXT/PLAIN; charset=utf-8":        true,
		"text/plain;q=high, ;;, text/html": false,
	} {
		w := ask(t, h, "GET", "/leader", "Accept", accept)
		if got := w.Body.String() == "false"; got != text || w.Code != http.StatusServiceUnavailable {
			t.Errorf("Accept %q: %d %s", accept, w.Code, w.Body)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		e, _ := leading(t, nil)
		if w := ask(t, httpstatus.New(e, nil), "GET", "/leader", "Accept", "text/plain"); w.Body.String() != "true" || w.Code != http.StatusOK {
			t.Errorf("leading: %d %q", w.Code, w.Body)
		}
	})
}

func TestRootIsADropInForTheClassicSidecar(t *testing.T) {
	t.Parallel()
	w := ask(t, httpstatus.New(standby(), nil), "GET", "/")
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), `{"name":"web-1","leader":false,`) || strings.Count(w.Body.String(), `"name"`) != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = ask(t, httpstatus.New(still{}, nil), "GET", "/")
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), `{"name":"",`) {
		t.Errorf("no holder: %d %s", w.Code, w.Body)
	}
}

func TestOtherMethodsAndPathsAreRefused(t *testing.T) {
	t.Parallel()
	h := httpstatus.New(standby(), nil)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		if w := ask(t, h, method, "/leader"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d, Allow: %s", method, w.Code, w.Header().Get("Allow"))
		}
	}
	for _, path := range []string{"/nothing", "/leader/", "/metrics", "/events", "/step-down", "/quit"} {
		if w := ask(t, h, "GET", path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestHealthSaysWhy(t *testing.T) {
	t.Parallel()
	s := standby()
	h := httpstatus.New(s, nil)
	for _, path := range []string{"/livez", "/readyz"} {
		if w := ask(t, h, "GET", path); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
	s.live, s.ready = errors.New("stalled"), errors.New("access denied: check the password")
	h = httpstatus.New(s, nil)
	if w := ask(t, h, "GET", "/livez"); w.Code != http.StatusServiceUnavailable || w.Body.String() != "stalled\n" {
		t.Errorf("livez: %d %q", w.Code, w.Body)
	}
	if w := ask(t, h, "GET", "/readyz"); w.Code != http.StatusServiceUnavailable || w.Body.String() != "access denied: check the password\n" {
		t.Errorf("readyz: %d %q", w.Code, w.Body)
	}
}

func TestAStoreThatIsDownDoesNotRestartThePod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{down: errors.New("connection refused")}
		e := run(t, s, nil, nil)
		h := httpstatus.New(e, nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if w := ask(t, h, "GET", "/livez"); w.Code != http.StatusOK {
			t.Errorf("livez: %d %s", w.Code, w.Body)
		}
		if w := ask(t, h, "GET", "/readyz"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "connection refused") {
			t.Errorf("readyz: %d %s", w.Code, w.Body)
		}
		s.set(func(s *store) { s.down = nil })
		until(t, "ready", func() bool { return ask(t, h, "GET", "/readyz").Code == http.StatusOK })
	})
}
