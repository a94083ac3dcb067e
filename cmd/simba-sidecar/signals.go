package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal returns a context that ends with parent, or after the first TERM or INT when first has
// returned. At the second, whoever sent it does not want to wait any longer: the process exits with the
// code that second returns, whatever else is going on.
func untilSignal(parent context.Context, first func(syscall.Signal), second func(syscall.Signal) int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	received := make(chan os.Signal, 2)
	signal.Notify(received, syscall.SIGTERM, syscall.SIGINT)
	over := make(chan struct{})
	next := func() (syscall.Signal, bool) {
		select {
		case s := <-received:
			number, ok := s.(syscall.Signal)
			return number, ok
		case <-over:
			return 0, false
		}
	}
	go func() {
		if number, ok := next(); ok {
			first(number)
			cancel()
		}
		if number, ok := next(); ok {
			os.Exit(second(number))
		}
	}()
	return ctx, func() {
		signal.Stop(received)
		cancel()
		close(over)
	}
}
