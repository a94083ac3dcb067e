package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/simba-sidecar/simba-sidecar/internal/testserver"
)

// baseline is another way to elect a leader. Its contenders run in this process, so that unlike the
// sidecar's they are spared processes and HTTP.
type baseline struct {
	*kind
	title                       string
	lease                       time.Duration
	handOverGroups, crashGroups int // how many elections run side by side
	stop                        func()
}

func (b *bench) openBaseline(ctx context.Context, name string) (*baseline, error) {
	switch name {
	case "polling":
		return b.openPolling(ctx)
	case "client-go":
		return b.openClientGo(ctx)
	default:
		return nil, errors.New("there is no such baseline: -baselines takes polling and client-go")
	}
}

// openPolling has a server of its own: statements of the sidecars' are being counted.
func (b *bench) openPolling(ctx context.Context) (*baseline, error) {
	var s store
	s.options = &sidecarOptions{}
	version, err := b.openSQL(ctx, &s, testserver.MariaDB)
	if err != nil {
		return nil, err
	}
	if _, err := s.db.ExecContext(ctx, pollingSchema); err != nil {
		return nil, err
	}
	s.db.SetMaxIdleConns(100)
	lease := pollingTTL + pollingTransition
	return &baseline{
		title: "polling like the JVM library, " + version,
		lease: lease,
		kind: &kind{
			start: func(ctx context.Context, mutex, name string, lead func(time.Time)) (contender, error) {
				return startPoller(ctx, s.db, mutex, name, lead)
			},
			settle: lease + pollLatest, // until the standbys follow the new leader's rhythm
			spread: pollingTTL,         // which is that of its renewals
		},
		handOverGroups: 100, crashGroups: 40,
		stop: func() {},
	}, nil
}

func (b *bench) openClientGo(ctx context.Context) (*baseline, error) {
	assets := os.Getenv(assetsVariable)
	if assets == "" {
		return nil, errors.New(assetsVariable + " does not name a folder with etcd and kube-apiserver")
	}
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // it logs each contender that we stop as an error
	dir := filepath.Join(b.dir, "kubernetes")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	config, stop, err := startAPIServer(ctx, assets, dir)
	if err != nil {
		return nil, err
	}
	base, err := clientGo(config)
	if err != nil {
		stop()
		return nil, err
	}
	base.stop = stop
	return base, nil
}

func clientGo(config *rest.Config) (*baseline, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, err
	}
	slowest := retryPeriod * 22 / 10 // a standby looks again after 1 to 2.2 retry periods
	return &baseline{
		title: "client-go leaderelection, Kubernetes " + version.GitVersion,
		lease: leaseDuration,
		kind: &kind{
			start: func(ctx context.Context, mutex, name string, lead func(time.Time)) (contender, error) {
				return startLockHolder(ctx, client, mutex, name, lead)
			},
			settle: slowest,
			spread: slowest,
		},
		handOverGroups: 20, crashGroups: 20,
	}, nil
}

// measureBaseline measures all at the same time: next to seconds of waiting, a busy machine is nothing.
func (b *bench) measureBaseline(ctx context.Context, base *baseline, c *column) {
	var all sync.WaitGroup
	all.Go(func() {
		changes, err := base.change(ctx, "hand-over", base.handOverGroups, b.rounds, contender.resign)
		c.handOver(changes)
		b.failed(c, "hand-over", err)
	})
	all.Go(func() {
		changes, err := base.change(ctx, "crash", base.crashGroups, b.crashes, contender.crash)
		c.crash(changes, base.lease)
		b.failed(c, "crash", err)
	})
	all.Go(func() {
		leader, standby, err := callsPerMinute(ctx, base.kind, b.window)
		if err != nil {
			b.failed(c, "idle", err)
			return
		}
		c.set(rowStatements, "%.1f / %.1f", leader, standby)
	})
	all.Wait()
}

// callsPerMinute returns what a leader and a standby ask of the store, as counted by themselves.
func callsPerMinute(ctx context.Context, k *kind, window time.Duration) (leader, standby float64, err error) {
	e := &election{kind: k, mutex: "idle", leads: make(chan lead, 10)}
	defer e.close()
	if err := e.begin(ctx); err != nil {
		return 0, 0, err
	}
	if err := sleep(ctx, k.settle); err != nil {
		return 0, 0, err
	}
	count := func(sign float64) {
		for number, member := range e.members {
			calls := sign * float64(member.(interface{ calls() int64 }).calls())
			if number == e.leader {
				leader += calls
			} else {
				standby += calls / (contenders - 1)
			}
		}
	}
	count(-1)
	err = sleep(ctx, window)
	count(+1)
	return leader / window.Minutes(), standby / window.Minutes(), err
}
