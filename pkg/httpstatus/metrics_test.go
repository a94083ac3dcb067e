package httpstatus_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
	"github.com/simba-sidecar/simba-sidecar/pkg/httpstatus"
)

// scrape returns the samples of one scrape by name and labels.
func scrape(t *testing.T, h http.Handler) map[string]float64 {
	t.Helper()
	w := ask(t, h, "GET", "/metrics", "Accept-Encoding", "gzip, zstd")
	if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "" {
		t.Fatalf("%d, encoding %q", w.Code, w.Header().Get("Content-Encoding"))
	}
	samples := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		samples[name+"}"] = value
	}
	if !strings.Contains(w.Body.String(), "go_goroutines ") || !strings.Contains(w.Body.String(), "process_resident_memory_bytes ") {
		t.Error("the runtime's and the process's metrics are missing")
	}
	return samples
}

func TestMetricsFollowTheElector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := httpstatus.NewMetrics(httpstatus.Labels{Mutex: "orders", Backend: "mysql", Version: "v1.2.3", Commit: "abc"})
		s := &store{token: 16}
		e := run(t, s, nil, &election.Options{Trace: m.Trace()})
		m.Follow(e.State, func(yield func(string, bool, uint64)) {
			yield("files", true, 0)
			yield("label", false, 3)
		})
		h := httpstatus.New(e, &httpstatus.Options{Metrics: m})
		until(t, "leading", func() bool { return e.State().Leading() })

		expect := func(samples map[string]float64, name string, want float64) {
			t.Helper()
			if !strings.Contains(name, "{") {
				name += `{backend="mysql",mutex="orders"}`
			}
			if got, ok := samples[name]; !ok || got != want {
				t.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
			}
		}
		now := scrape(t, h)
		expect(now, "simba_leader", 1)
		expect(now, "simba_token", 17)
		expect(now, "simba_backend_up", 1)
		expect(now, `simba_transitions_total{backend="mysql",mutex="orders",reason="acquired"}`, 1)
		expect(now, `simba_transitions_total{backend="mysql",mutex="orders",reason="expired"}`, 0)
		expect(now, `simba_sink_in_sync{backend="mysql",mutex="orders",sink="files"}`, 1)
		expect(now, `simba_sink_in_sync{backend="mysql",mutex="orders",sink="label"}`, 0)
		expect(now, `simba_sink_failures_total{backend="mysql",mutex="orders",sink="label"}`, 3)
		expect(now, `simba_backend_call_seconds_count{backend="mysql",call="acquire",mutex="orders",outcome="ok"}`, 1)
		if left := now[`simba_deadline_seconds{backend="mysql",mutex="orders"}`]; left <= 0 || left > contender.TTL.Seconds() {
			t.Errorf("simba_deadline_seconds is %v", left)
		}
		found := false
		for name := range now {
			found = found || strings.HasPrefix(name, `simba_build_info{backend="mysql",commit="abc",goversion="go`) && strings.HasSuffix(name, `mutex="orders",version="v1.2.3"}`)
		}
		if !found {
			t.Error("no simba_build_info")
		}

		s.set(func(s *store) { s.down = errors.New("connection refused") })
		time.Sleep(contender.Lease())
		synctest.Wait()
		now = scrape(t, h)
		expect(now, "simba_leader", 0)
		expect(now, "simba_token", 0)
		expect(now, "simba_deadline_seconds", 0)
		expect(now, "simba_backend_up", 0)
		expect(now, `simba_transitions_total{backend="mysql",mutex="orders",reason="expired"}`, 1)
		if n := now[`simba_backend_call_seconds_count{backend="mysql",call="renew",mutex="orders",outcome="error"}`]; n < 1 {
			t.Errorf("%v failed renewals", n)
		}
	})
}
