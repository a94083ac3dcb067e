package httpstatus

import (
	"net/http"
	"strconv"

	"github.com/simba-sidecar/simba-sidecar/internal/statusjson"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// Source is what the answers are made of; an election.Elector is one.
type Source interface {
	// State returns the present state.
	State() election.State
	// Live returns nil unless the process has to be restarted.
	Live() error
	// Ready returns nil once the store has answered, else what it said.
	Ready() error
}

// Options are the optional parts of a Handler. The zero value, and a nil pointer, are usable.
type Options struct {
	// Backend is the kind of store that bodies name, such as "mysql".
	Backend string
	// Metrics answers /metrics. nil: there is no such page.
	Metrics http.Handler
	// Hub wakes the requests that wait for a change. nil: none can wait, and there is no /events.
	Hub *Hub
}

// handler answers what the application and the kubelet ask.
type handler struct {
	source Source
	hub    *Hub
	kind   string
}

// New returns the handler of the public endpoints.
func New(source Source, o *Options) http.Handler {
	if o == nil {
		o = &Options{}
	}
	h := &handler{source: source, hub: o.Hub, kind: o.Backend}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.root)
	mux.HandleFunc("GET /leader", h.leader)
	mux.HandleFunc("GET /livez", health(source.Live))
	mux.HandleFunc("GET /readyz", health(source.Ready))
	if o.Hub != nil {
		mux.HandleFunc("GET /events", h.events)
	}
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	return uncached(mux)
}

// uncached says of every answer that it is true at its moment only.
func uncached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// leader answers 200 while this process leads and 503 otherwise, with the same body.
func (h *handler) leader(w http.ResponseWriter, r *http.Request) {
	if !h.wait(w, r) {
		return
	}
	body := statusjson.Of(h.source.State(), h.kind)
	code := http.StatusServiceUnavailable
	if body.Leader {
		code = http.StatusOK
		w.Header().Set("Simba-Token", strconv.FormatUint(body.Token, 10))
	}
	w.Header().Set("Vary", "Accept")
	if wantsText(r.Header.Values("Accept")) {
		answer(w, code, "text/plain; charset=utf-8", strconv.AppendBool(nil, body.Leader))
		return
	}
	answerJSON(w, code, body)
}

// root answers like the leader-elector sidecar of old: always 200, and always with a name.
func (h *handler) root(w http.ResponseWriter, _ *http.Request) {
	body := statusjson.Of(h.source.State(), h.kind)
	answerJSON(w, http.StatusOK, struct {
		Name string `json:"name"`
		statusjson.Body
	}{body.Name, body})
}

func health(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			answerText(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		answerText(w, http.StatusOK, "ok")
	}
}

func answerJSON(w http.ResponseWriter, code int, body any) {
	text, err := statusjson.Marshal(body)
	if err != nil {
		answerText(w, http.StatusInternalServerError, err.Error())
		return
	}
	answer(w, code, "application/json", text)
}

func answerText(w http.ResponseWriter, code int, line string) {
	answer(w, code, "text/plain; charset=utf-8", []byte(line+"\n"))
}

func answer(w http.ResponseWriter, code int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body))) // HEAD has it too
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that is gone needs no answer
}
