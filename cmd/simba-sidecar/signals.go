package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// echo is for how long the first signal may come again without meaning more: timeout(1) and other wrappers
// signal the process and then its group.
const echo = time.Second

// untilSignal returns a context that ends with parent, or after the first TERM or INT when first has
// returned. At the second, if it is no echo, whoever sent it does not want to wait any longer: the process
// exits with the code that second returns, whatever else is going on.
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
		number, ok := next()
		if !ok {
			return
		}
		began := time.Now()
		first(number)
		cancel()
		for again, ok := next(); ok; again, ok = next() {
			if again != number || time.Since(began) > echo {
				os.Exit(second(again))
			}
		}
	}()
	return ctx, func() {
		signal.Stop(received)
		cancel()
		close(over)
	}
}
