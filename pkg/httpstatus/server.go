package httpstatus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits that keep slow or forgetful clients from taking what a probe needs. A request is one packet and
// an answer fits into a socket's buffer, so whoever takes seconds does not mean well.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	headerBytes   = 16 << 10
	maxConns      = 256
	drainTimeout  = time.Second
)

// Listen opens addr, such as ":4040", which means all addresses of both IP versions, or of IPv4 where
// there is no IPv6. flag is the name of the flag that addr comes from, for the error.
func Listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	return listen(ctx, flag, addr, ":4042")
}

// listen opens addr. Its error offers another address, which must not be a default: those are what is in use.
func listen(ctx context.Context, flag, addr, other string) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: choose a free address, such as %s, or off", flag, addr, err, other)
	}
	return l, nil
}

// ListenLoopback is Listen for an address that only this machine, or this pod, can reach.
func ListenLoopback(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := listen(ctx, flag, addr, "127.0.0.1:4043")
	if err != nil {
		return nil, err
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		err := fmt.Errorf("%s %s: others can reach that address: use one like 127.0.0.1:4041, or off", flag, addr)
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Serve answers requests on l with h until ctx ends. Requests that wait for something are then ended,
// others get a moment to finish. It closes l. log (nil: nobody) gets what goes wrong with connections at
// Debug.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	limited := newLimit(l, maxConns)
	server := &http.Server{
		Handler:           limited.count(h),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ConnContext:       withConn,
	}
	server.RegisterOnShutdown(end)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(limited) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		_ = server.Close() // what does not end in time is cut off
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}
