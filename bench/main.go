// Command bench measures simba-sidecar, as a built binary on real servers, and beside it two other ways to
// elect a leader: the JVM library's polling of a MySQL row, and client-go's leaderelection. It prints one
// Markdown table; docs/performance.md says how to read it. It never fails because something was slow.
//
//	cd bench && go run . [-rounds 200] [-crashes 40] [-window 1m] [-stores local,mariadb,mysql] [-baselines polling,client-go]
//
// It needs Linux, and the servers that `make test` installs; what is not there is left out with a remark. The
// API server and its etcd are those in $KUBEBUILDER_ASSETS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	rounds, crashes int
	window          time.Duration
	binary          string
	size            int64
	dir             string // temporary
	rig             *rig
	progress        io.Writer
	table           table
}

// How long each part may take. Series that are not complete then are shown as far as they got.
const (
	handOverLimit = 90 * time.Second // for each store
	crashLimit    = 100 * time.Second
	baselineLimit = 150 * time.Second
)

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	b := &bench{rig: &rig{}, progress: stderr}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&b.rounds, "rounds", 200, "hand-overs of each kind")
	flags.IntVar(&b.crashes, "crashes", 40, "crashes of each kind")
	flags.DurationVar(&b.window, "window", time.Minute, "for how long idle contenders are watched; twice")
	flags.StringVar(&b.binary, "binary", "", "the sidecar to measure; empty builds it")
	storeList := flags.String("stores", "local,mariadb,mysql", "stores to run the sidecar on")
	baselineList := flags.String("baselines", "polling,client-go", "what to compare with; may be empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "simba-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	defer b.rig.close()

	began := time.Now()
	b.table.title = heading(args)
	b.say("building the sidecar and starting the stores")
	if err := b.build(ctx); err != nil {
		return err
	}
	stores, err := b.openStores(ctx, split(*storeList))
	if err != nil {
		return err
	}
	idleAndBaselines := func(ctx context.Context, stores []*store) { b.idleAndBaselines(ctx, stores, split(*baselineList)) }
	for _, part := range []func(context.Context, []*store){b.handOvers, b.crashesOf, b.starts, b.loads, idleAndBaselines} {
		part(ctx, stores)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	b.say("done in %v", time.Since(began).Round(time.Second))
	return b.table.print(stdout)
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// failed keeps what went wrong with one column's part, which costs the run nothing else.
func (b *bench) failed(c *column, part string, err error) {
	if err != nil {
		b.say("%s: %s: %v", c.title, part, err)
		b.table.remark("%s: %s: %v", c.title, part, err)
	}
}

// handOvers are measured on one store after the other: they take milliseconds, which others would blur.
func (b *bench) handOvers(ctx context.Context, stores []*store) {
	for _, s := range stores {
		b.say("%s: hand-overs", s.column.title)
		limited, cancel := context.WithTimeout(ctx, handOverLimit)
		k := s.kind()
		k.spread = 100 * time.Millisecond
		all, err := k.change(limited, "hand-over", 1, b.rounds, contender.resign)
		cancel()
		s.column.handOver(all)
		b.failed(s.column, "hand-over", err)
	}
}

// crashesOf are all waited for at the same time: each takes a lease.
func (b *bench) crashesOf(ctx context.Context, stores []*store) {
	b.say("crashes on all stores")
	limited, cancel := context.WithTimeout(ctx, crashLimit)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range stores {
		all.Go(func() {
			k := s.kind()
			k.spread = s.options.ttl / 3 // the time between two renewals
			changes, err := k.change(limited, "crash", 10, b.crashes, contender.crash)
			s.column.crash(changes, s.options.ttl+s.options.transition)
			b.failed(s.column, "crash", err)
		})
	}
	all.Wait()
}

const starts = 20

func (b *bench) starts(ctx context.Context, stores []*store) {
	for _, s := range stores {
		b.say("%s: starts", s.column.title)
		var answered, led samples
		for i := range starts {
			c, err := s.lead(ctx, fmt.Sprintf("start-%d", i))
			if err != nil {
				b.failed(s.column, "start", err)
				break
			}
			c.close()
			answered = append(answered, c.answered.Sub(c.begun))
			led = append(led, c.led.Sub(c.begun))
		}
		s.column.set(rowStartAnswer, "%v", answered)
		s.column.set(rowStartLead, "%v", led)
	}
}

func (b *bench) loads(ctx context.Context, stores []*store) {
	for _, s := range stores {
		b.say("%s: requests", s.column.title)
		c, err := s.lead(ctx, "load")
		if err != nil {
			b.failed(s.column, "requests", err)
			continue
		}
		l, err := measureLoad(ctx, c)
		c.close()
		if err != nil {
			b.failed(s.column, "requests", err)
			continue
		}
		s.column.set(rowLatency, "%v", l.latency)
		s.column.set(rowRate, "%.0f", l.rate)
	}
}

// idleAndBaselines is mostly waiting, and what it measures does not depend on how fast the machine is.
func (b *bench) idleAndBaselines(ctx context.Context, stores []*store, names []string) {
	b.say("idle contenders, and the baselines")
	limited, cancel := context.WithTimeout(ctx, max(baselineLimit, 5*b.window/2))
	defer cancel()
	var all sync.WaitGroup
	for _, s := range stores {
		s.column.set(rowSize, "%.1f", float64(b.size)/1e6)
		all.Go(func() {
			i, err := measureIdle(limited, s.options, "idle", s.db, b.window)
			if err != nil {
				b.failed(s.column, "idle", err)
				return
			}
			s.column.idle(i)
		})
	}
	for _, name := range names {
		base, err := b.openBaseline(limited, name)
		if err != nil {
			b.table.remark("%s is left out: %v", name, err)
			continue
		}
		defer base.stop()
		column := b.table.column(base.title)
		all.Go(func() { b.measureBaseline(limited, base, column) })
	}
	all.Wait()
}
