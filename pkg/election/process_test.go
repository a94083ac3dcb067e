package election_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

const (
	ttl        = 10 * time.Second
	transition = 6 * time.Second
	lease      = ttl + transition
)

// process is one running Elector.
type process struct {
	*election.Elector
	*sinks
	backend *client
	cancel  context.CancelFunc
	running func() bool // not cancelled
	ran     chan error
}

func start(t *testing.T, b *client, o *election.Options, prepare ...func(*election.Elector)) *process {
	t.Helper()
	return startOn(t, b, b, o, prepare...)
}

// startOn is start with something between the Elector and its client.
func startOn(t *testing.T, on election.Backend, b *client, o *election.Options, prepare ...func(*election.Elector)) *process {
	t.Helper()
	p := &process{sinks: &sinks{}, backend: b, ran: make(chan error, 1)}
	e, err := election.New(on, b.c, p.sinks, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range prepare {
		f(e)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.Elector, p.cancel = e, cancel
	p.running = func() bool { return ctx.Err() == nil }
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.ran)
		p.ran <- e.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		time.Sleep(time.Minute) // of fake time: deaf calls end
	})
	return p
}

// stop ends the process gracefully.
func (p *process) stop() error {
	p.cancel()
	return <-p.ran
}

// await passes fake time until ok, checking at every millisecond that at most one of ps leads.
func await(t *testing.T, limit time.Duration, what string, ok func() bool, ps ...*process) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		oneLeads(t, ps...)
		if ok() {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func oneLeads(t *testing.T, ps ...*process) {
	t.Helper()
	var leaders []string
	for _, p := range ps {
		if s := p.State(); s.Leading() {
			leaders = append(leaders, fmt.Sprintf("%s (%d)", s.Identity, s.Token))
		}
	}
	if len(leaders) > 1 {
		t.Fatalf("more than one leads: %v", leaders)
	}
}

func (p *process) leads() bool { return p.State().Leading() }

// pass lets fake time pass, checking all the while.
func pass(t *testing.T, d time.Duration, ps ...*process) {
	t.Helper()
	begin := time.Now()
	await(t, 2*d, "time passes", func() bool { return time.Since(begin) >= d }, ps...)
}
