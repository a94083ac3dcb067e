package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/simba-sidecar/simba-sidecar/pkg/backends"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
	"github.com/simba-sidecar/simba-sidecar/pkg/httpstatus"
	"github.com/simba-sidecar/simba-sidecar/pkg/sinks"
)

// crashDelay is how long after a dead leader's lease the next one leads: the contenders' random wait and
// a call.
const crashDelay = 250 * time.Millisecond

// lastWord bounds what nobody's leadership depends on any more.
const lastWord = time.Second

// member is one contender with all that it needs.
type member struct {
	*settings
	store       *store
	log         *slog.Logger
	contender   election.Contender
	resume      uint64 // the token of a predecessor's term; 0: none
	stopTimeout time.Duration
}

// run contends, and tells sinks and HTTP clients, until ctx ends, somebody asks it to quit or a
// listener breaks. HTTP clients are told "not leading" until the mutex has been given up.
func (m *member) run(ctx context.Context, follow ...sinks.Sink) error {
	kind, err := backends.Scheme(m.store.url)
	if err != nil {
		return err
	}
	backend, err := m.store.open(m.contender, m.log)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	defer func() { _ = backend.Close() }() // the mutex is released; what is left ends with the process

	hub := &httpstatus.Hub{}
	metrics := httpstatus.NewMetrics(httpstatus.Labels{Mutex: m.mutex, Backend: kind, Version: version, Commit: commit})
	group := sinks.NewGroup(&sinks.Options{Logger: m.log, Notify: hub.Publish}, follow...)
	elector, err := election.New(backend, m.contender, group, &election.Options{
		Logger:      m.log,
		StopTimeout: m.stopTimeout,
		ObserveOnly: m.observe,
		ResumeToken: m.resume,
		FailFast:    m.failFast,
		Trace:       metrics.Trace(),
	})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	metrics.Follow(elector.State, group.Each)

	contending, quit := context.WithCancel(ctx)
	defer quit()
	public := httpstatus.New(elector, &httpstatus.Options{Backend: kind, Metrics: metrics, Hub: hub})
	admin := httpstatus.NewAdmin(elector, quit, &httpstatus.AdminOptions{Backend: kind, Timeout: m.stopTimeout + m.ttl})
	servers, err := m.listen(ctx, public, admin)
	if err != nil {
		return err
	}
	m.logStart(kind)

	serving, finish := context.WithCancel(context.WithoutCancel(ctx))
	defer finish()
	var all errgroup.Group
	all.Go(func() error { return group.Run(serving) })
	for _, server := range servers {
		all.Go(func() error {
			defer quit()
			return httpstatus.Serve(serving, server.listener, server.handler, m.log)
		})
	}
	all.Go(func() error {
		defer finish()
		err := elector.Run(contending)
		// Now the mutex is nobody's, or at least not known to be ours: the last word to whoever follows.
		last, cancel := context.WithTimeout(serving, lastWord)
		defer cancel()
		if err := group.Settle(last); err != nil {
			m.log.Warn("sinks have not settled", "err", err)
		}
		return err
	})
	return all.Wait()
}

// server is a listener that is open, with what answers on it.
type server struct {
	listener net.Listener
	handler  http.Handler
}

// listen opens the listeners before anything is contended for: a port in use must cost no leadership.
func (m *member) listen(ctx context.Context, public, admin http.Handler) (servers []server, err error) {
	open := func(name, address string, h http.Handler, by func(ctx context.Context, flag, addr string) (net.Listener, error)) {
		if address == off || err != nil {
			return
		}
		var l net.Listener
		if l, err = by(ctx, m.label(name), address); err == nil {
			servers = append(servers, server{l, h})
			m.log.Info("listening", "for", name, "address", l.Addr().String())
		}
	}
	open("listen", m.settings.listen, public, httpstatus.Listen)
	open("admin-listen", m.adminListen, admin, httpstatus.ListenLoopback)
	if err != nil {
		for _, s := range servers {
			err = errors.Join(err, s.listener.Close())
		}
	}
	return servers, err
}

func (m *member) logStart(kind string) {
	where, _ := backends.Location(m.store.url)
	m.log.Info("contending",
		"mutex", m.mutex, "identity", m.contender.Identity, "backend", kind, "location", where, "version", version,
		"ttl", m.ttl, "lease", m.contender.Lease(), "worst_failover", m.contender.Lease()+crashDelay)
}
