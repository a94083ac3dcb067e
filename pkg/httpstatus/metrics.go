package httpstatus

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// Labels are what metrics say about where they come from.
type Labels struct {
	Mutex   string // on every metric of ours
	Backend string // on every metric of ours: the kind of store, such as "mysql"
	Version string // of this program, in simba_build_info
	Commit  string // in simba_build_info
}

// Metrics keeps this process's metrics and answers a scrape.
type Metrics struct {
	registry    *prometheus.Registry
	ours        prometheus.Registerer // with the labels
	calls       *prometheus.HistogramVec
	transitions *prometheus.CounterVec
	up          prometheus.Gauge
	page        http.Handler
}

// NewMetrics returns Metrics in a registry of their own. Give Trace to the elector and the elector to
// Follow.
func NewMetrics(l Labels) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "simba_backend_call_seconds",
			Help:    "How long calls to the store took, by call and outcome (error: the answer is not known).",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"call", "outcome"}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "simba_transitions_total",
			Help: "How often leading began (acquired, resumed) or ended (any other reason).",
		}, []string{"reason"}),
		up: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "simba_backend_up",
			Help: "Whether the last call to the store was answered.",
		}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "simba_build_info",
		Help:        "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": l.Version, "commit": l.Commit, "goversion": runtime.Version()},
	})
	build.Set(1)
	// From the start on, so that the first one counts as an increase.
	for _, reason := range []string{
		election.Acquired, election.Resumed, election.Released, election.Expired, election.Lost, election.StepDown,
	} {
		m.transitions.WithLabelValues(reason)
	}
	m.ours = prometheus.WrapRegistererWith(prometheus.Labels{"mutex": l.Mutex, "backend": l.Backend}, m.registry)
	m.ours.MustRegister(m.calls, m.transitions, m.up, build)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// A scrape within the pod's network gains nothing from compression, whose buffers would stay in memory.
	// Each scrape takes some hundred kilobytes while it is written, and anybody in that network can ask.
	m.page = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true, MaxRequestsInFlight: 4})
	return m
}

// Trace returns the callbacks that count an elector's calls and transitions.
func (m *Metrics) Trace() election.Trace {
	return election.Trace{
		Call: func(call string, took time.Duration, err error) {
			outcome, up := "ok", 1.0
			if err != nil {
				outcome, up = "error", 0
			}
			m.calls.WithLabelValues(call, outcome).Observe(took.Seconds())
			m.up.Set(up)
		},
		Transition: func(reason string) { m.transitions.WithLabelValues(reason).Inc() },
	}
}

// Follow adds what is asked at every scrape: the state, and each sink (nil: none) that sinks yields with
// whether it agrees with the state and how often it has failed. It may be called once.
func (m *Metrics) Follow(state func() election.State, sinks func(yield func(sink string, inSync bool, failures uint64))) {
	m.ours.MustRegister(&scrape{
		state:    state,
		sinks:    sinks,
		leader:   prometheus.NewDesc("simba_leader", "Whether this process leads.", nil, nil),
		token:    prometheus.NewDesc("simba_token", "Fencing token of the holder as last observed; 0 if not known.", nil, nil),
		deadline: prometheus.NewDesc("simba_deadline_seconds", "Until leading ends if nothing renews the lease; 0 when not leading.", nil, nil),
		inSync:   prometheus.NewDesc("simba_sink_in_sync", "Whether the sink agrees with the state.", []string{"sink"}, nil),
		failures: prometheus.NewDesc("simba_sink_failures_total", "How often the sink has failed to follow the state.", []string{"sink"}, nil),
	})
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.page.ServeHTTP(w, r) }

// scrape is the Collector of what is not counted but asked.
type scrape struct {
	state                                     func() election.State
	sinks                                     func(yield func(string, bool, uint64))
	leader, token, deadline, inSync, failures *prometheus.Desc
}

func (c *scrape) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.leader, c.token, c.deadline, c.inSync, c.failures} {
		out <- d
	}
}

func (c *scrape) Collect(out chan<- prometheus.Metric) {
	s := c.state()
	left := 0.0
	if s.Status == election.Leader {
		left = s.Remaining().Seconds()
	}
	out <- prometheus.MustNewConstMetric(c.leader, prometheus.GaugeValue, boolValue(left > 0))
	out <- prometheus.MustNewConstMetric(c.token, prometheus.GaugeValue, float64(s.Token))
	out <- prometheus.MustNewConstMetric(c.deadline, prometheus.GaugeValue, left)
	if c.sinks == nil {
		return
	}
	c.sinks(func(sink string, inSync bool, failures uint64) {
		out <- prometheus.MustNewConstMetric(c.inSync, prometheus.GaugeValue, boolValue(inSync), sink)
		out <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(failures), sink)
	})
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
