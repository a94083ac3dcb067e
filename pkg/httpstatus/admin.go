package httpstatus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/statusjson"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// Stepper is what the admin endpoints act on; an election.Elector is one.
type Stepper interface {
	// State returns the present state.
	State() election.State
	// StepDown gives up leading and does not contend for cooldown (0: a default). It returns when the
	// mutex has been released.
	StepDown(ctx context.Context, cooldown time.Duration) error
}

// AdminOptions are the optional parts of an admin handler. The zero value, and a nil pointer, are usable.
type AdminOptions struct {
	// Backend is the kind of store that bodies name, such as "mysql".
	Backend string
	// Timeout bounds how long a request waits for a release. 0 means 15 seconds.
	Timeout time.Duration
}

// NewAdmin returns the handler of the endpoints that change something. quit asks the process to stop and
// returns at once. The handler has no notion of who may do this: listen with ListenLoopback.
func NewAdmin(s Stepper, quit func(), o *AdminOptions) http.Handler {
	if o == nil {
		o = &AdminOptions{}
	}
	timeout := o.Timeout
	if timeout == 0 {
		timeout = 15 * time.Second
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /step-down", func(w http.ResponseWriter, r *http.Request) {
		cooldown, err := cooldownOf(r)
		if err != nil {
			answerText(w, http.StatusBadRequest, err.Error())
			return
		}
		unbound(w, timeout)
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		switch err := s.StepDown(ctx, cooldown); {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
			answerText(w, http.StatusGatewayTimeout,
				fmt.Sprintf("not released within %v, and still trying: see GET /leader of the other listener for the outcome", timeout))
		case err != nil:
			answerText(w, http.StatusBadGateway, err.Error())
		default:
			answerJSON(w, http.StatusOK, statusjson.Of(s.State(), o.Backend))
		}
	})
	mux.HandleFunc("POST /quit", func(w http.ResponseWriter, _ *http.Request) {
		answerText(w, http.StatusAccepted, "stopping")
		quit()
	})
	// On a developer's machine a web page can send requests to the loopback address too, and under a name
	// of its own.
	return uncached(http.NewCrossOriginProtection().Handler(loopbackOnly(mux)))
}

// loopbackOnly refuses requests that were sent to another name than the machine's own.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.Trim(host, "[]")
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			answerText(w, http.StatusForbidden, fmt.Sprintf("sent to %q: use localhost or 127.0.0.1", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func cooldownOf(r *http.Request) (time.Duration, error) {
	query := r.URL.Query()
	if !query.Has("cooldown") {
		return 0, nil
	}
	d, err := time.ParseDuration(query.Get("cooldown"))
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("cooldown=%q is not a positive duration: write cooldown=30s, or leave it out for twice the lease", query.Get("cooldown"))
	}
	return d, nil
}
