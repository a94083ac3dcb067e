package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The defaults of Kubernetes' own components.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// lockHolder contends with client-go's leaderelection.
type lockHolder struct {
	lock    *watchedLock
	stop    context.CancelFunc
	stopped chan struct{}
}

func startLockHolder(ctx context.Context, client kubernetes.Interface, mutex, id string, lead func(time.Time)) (*lockHolder, error) {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, "default", mutex,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: id})
	if err != nil {
		return nil, err
	}
	h := &lockHolder{lock: &watchedLock{Interface: lock, seen: make(chan struct{})}, stopped: make(chan struct{})}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            h.lock,
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { lead(time.Now()) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, h.stop = context.WithCancel(ctx)
	go func() {
		defer close(h.stopped)
		elector.Run(ctx)
	}()
	return h, nil
}

func (h *lockHolder) ready(ctx context.Context) error {
	select {
	case <-h.lock.seen:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *lockHolder) resign(context.Context) (ending, error) {
	asked := time.Now()
	h.close()
	_, released := h.lock.times()
	if released.IsZero() {
		return ending{}, errors.New("client-go has not released its lease")
	}
	return ending{asked, released}, nil
}

func (h *lockHolder) crash(context.Context) (ending, error) {
	asked := time.Now()
	h.lock.dead.Store(true) // so that it cannot release
	h.close()
	held, _ := h.lock.times()
	return ending{asked, held.Add(leaseDuration)}, nil
}

func (h *lockHolder) calls() int64 { return h.lock.requests.Load() }

func (h *lockHolder) close() {
	h.stop()
	<-h.stopped
}

var errDead = errors.New("this contender is dead")

// watchedLock is a lock that remembers when it was last written, and can die.
type watchedLock struct {
	resourcelock.Interface
	dead     atomic.Bool
	requests atomic.Int64

	mu             sync.Mutex
	seen           chan struct{} // closed once another is known to hold the lock
	known          bool
	held, released time.Time // start of the last request that renewed it, and of the one that released it
}

func (l *watchedLock) times() (held, released time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held, l.released
}

func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.dead.Load() {
		return nil, nil, errDead
	}
	l.requests.Add(1)
	record, raw, err := l.Interface.Get(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && record.HolderIdentity != "" && !l.known {
		l.known = true
		close(l.seen)
	}
	return record, raw, err
}

func (l *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(func() error { return l.Interface.Create(ctx, record) }, record)
}

func (l *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(func() error { return l.Interface.Update(ctx, record) }, record)
}

func (l *watchedLock) write(request func() error, record resourcelock.LeaderElectionRecord) error {
	if l.dead.Load() {
		return errDead
	}
	l.requests.Add(1)
	start := time.Now()
	if err := request(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if record.HolderIdentity == "" {
		l.released = start
	} else {
		l.held = start
	}
	return nil
}
