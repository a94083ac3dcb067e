package httpstatus_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
	"github.com/simba-sidecar/simba-sidecar/pkg/httpstatus"
)

func TestStepDownAnswersAfterTheRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, s := leading(t, nil)
		h := httpstatus.NewAdmin(e, nil, &httpstatus.AdminOptions{Backend: "mysql"})
		w := ask(t, h, "POST", "/step-down?cooldown=90s")
		if body := fields(t, w); w.Code != http.StatusOK || body["leader"] != false || body["backend"] != "mysql" {
			t.Errorf("%d %v", w.Code, body)
		}
		s.set(func(s *store) {
			if s.released != 1 {
				t.Errorf("%d releases before the answer", s.released)
			}
		})
		time.Sleep(90*time.Second - contender.TTL)
		if e.State().Leading() {
			t.Error("leading again within the cool-down")
		}
		until(t, "leading after the cool-down", func() bool { return e.State().Leading() })

		ask(t, h, "POST", "/step-down") // twice the lease
		time.Sleep(2*contender.Lease() - time.Second)
		if e.State().Leading() {
			t.Error("leading again within the default cool-down")
		}
	})
}

func TestStepDownSaysWhenItTakesTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, s := leading(t, nil)
		s.set(func(s *store) { s.stuck = true })
		h := httpstatus.NewAdmin(e, nil, &httpstatus.AdminOptions{Timeout: 2 * time.Second})
		start := time.Now()
		w := ask(t, h, "POST", "/step-down")
		if took := time.Since(start); w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), "not released within 2s") || took != 2*time.Second {
			t.Errorf("%d %s after %v", w.Code, w.Body, took)
		}
		if e.State().Leading() {
			t.Error("still leading")
		}
	})
}

func TestStepDownRefusesAWrongCooldown(t *testing.T) {
	t.Parallel()
	h := httpstatus.NewAdmin(new(election.Elector), nil, nil)
	for _, query := range []string{"cooldown=30", "cooldown=", "cooldown=0s", "cooldown=-5s"} {
		if w := ask(t, h, "POST", "/step-down?"+query); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "write cooldown=30s") {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

func TestQuitAnswersAndStops(t *testing.T) {
	t.Parallel()
	stopped := 0
	h := httpstatus.NewAdmin(new(election.Elector), func() { stopped++ }, nil)
	for _, refused := range [][]string{
		{"GET", "/quit"},
		{"GET", "/step-down"},
		{"POST", "/quit", "Sec-Fetch-Site", "cross-site"},
		{"POST", "/step-down", "Origin", "https://elsewhere.example"},
		{"POST", "/quit", "Host", "rebound.example:4041"},
	} {
		if w := ask(t, h, refused[0], refused[1], refused[2:]...); w.Code != http.StatusMethodNotAllowed && w.Code != http.StatusForbidden {
			t.Errorf("%v: %d", refused, w.Code)
		}
	}
	if stopped != 0 {
		t.Error("a refused request stops the process")
	}
	for i, host := range []string{"localhost", "127.0.0.1:4041", "[::1]:4041"} {
		if w := ask(t, h, "POST", "/quit", "Host", host); w.Code != http.StatusAccepted || stopped != i+1 {
			t.Errorf("quit at %s: %d, stopped %d times", host, w.Code, stopped)
		}
	}
}
