package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// script is a Backend that answers what a test tells it to.
type script struct {
	lease election.Lease
	err   error
	takes time.Duration
}

func (s *script) Acquire(context.Context) (election.Lease, error) {
	time.Sleep(s.takes)
	return s.lease, s.err
}
func (s *script) Renew(ctx context.Context, _ uint64) (election.Lease, error) { return s.Acquire(ctx) }
func (s *script) Observe(ctx context.Context) (election.Lease, error)         { return s.Acquire(ctx) }
func (s *script) Release(ctx context.Context, _ uint64) error {
	_, err := s.Acquire(ctx)
	return err
}
func (s *script) Close() error { return nil }

// client makes recorded calls that answer as told.
type client struct {
	t        *testing.T
	identity string
	script   *script
	backend  election.Backend
}

func newClient(t *testing.T, h *History, identity string) *client {
	s := new(script)
	c := election.Contender{Mutex: "orders", Identity: identity, TTL: time.Second, Transition: 500 * time.Millisecond}
	return &client{t, identity, s, h.Record(s, c)}
}

const full = 1500 * time.Millisecond

var errLost = errors.New("connection reset")

func (c *client) call(v verb, token uint64, answer election.Lease, err error) {
	c.script.lease, c.script.err = answer, err
	switch v {
	case acquire:
		_, _ = c.backend.Acquire(c.t.Context())
	case renew:
		_, _ = c.backend.Renew(c.t.Context(), token)
	case release:
		_ = c.backend.Release(c.t.Context(), token)
	case observe:
		_, _ = c.backend.Observe(c.t.Context())
	}
}

func (c *client) wins(token uint64)     { c.call(acquire, 0, held(c, token), nil) }
func (c *client) renews(token uint64)   { c.call(renew, token, held(c, token), nil) }
func (c *client) frees(token uint64)    { c.call(release, token, election.Lease{}, nil) }
func (c *client) sees(l election.Lease) { c.call(observe, 0, l, nil) }
func (c *client) loses(v verb, token uint64) {
	c.call(v, token, election.Lease{}, errLost)
}

func held(c *client, token uint64) election.Lease {
	return election.Lease{Holder: c.identity, Token: token, Remaining: full}
}

var free = election.Lease{}

func TestHistoryJudges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		run   func(a, b *client)
		wrong bool
	}{
		"one term after another": {run: func(a, b *client) {
			a.sees(free)
			a.wins(5)
			a.renews(5)
			b.sees(held(a, 5))
			a.frees(5)
			b.sees(free)
			b.wins(6)
			a.call(acquire, 0, held(b, 6), nil)
			a.call(renew, 5, held(b, 6), nil)
		}},
		"takeover at the expiry":            {run: func(a, b *client) { a.wins(5); time.Sleep(full); b.wins(6) }},
		"takeover before the expiry":        {wrong: true, run: func(a, b *client) { a.wins(5); time.Sleep(full - 1); b.wins(6) }},
		"takeover before the renewed one":   {wrong: true, run: func(a, b *client) { a.wins(5); time.Sleep(full / 2); a.renews(5); time.Sleep(full - 1); b.wins(6) }},
		"reported free before the expiry":   {wrong: true, run: func(a, b *client) { a.wins(5); b.sees(free) }},
		"two holders":                       {wrong: true, run: func(a, b *client) { a.wins(5); b.wins(6) }},
		"two holders with one token":        {wrong: true, run: func(a, b *client) { a.wins(5); b.wins(5) }},
		"report of somebody else":           {wrong: true, run: func(a, b *client) { a.wins(5); a.sees(held(b, 5)) }},
		"token used again after release":    {wrong: true, run: func(a, b *client) { a.wins(5); a.frees(5); b.wins(5) }},
		"token used again by its holder":    {wrong: true, run: func(a, b *client) { a.wins(5); a.frees(5); a.wins(5) }},
		"token used again after the expiry": {wrong: true, run: func(a, b *client) { a.wins(5); time.Sleep(full); b.wins(5) }},
		"token falls":                       {wrong: true, run: func(a, b *client) { a.wins(5); a.frees(5); b.wins(4) }},
		"token raised by adoption":          {wrong: true, run: func(a, b *client) { a.wins(5); a.wins(6) }},
		"token raised by a renewal":         {wrong: true, run: func(a, b *client) { a.wins(5); a.call(renew, 5, held(a, 6), nil) }},
		"token raised in a report":          {wrong: true, run: func(a, b *client) { a.wins(5); b.sees(held(a, 6)) }},
		"adoption":                          {run: func(a, b *client) { a.wins(5); a.wins(5); b.sees(held(a, 5)) }},
		"adoption extends":                  {wrong: true, run: func(a, b *client) { a.wins(5); time.Sleep(full / 2); a.wins(5); time.Sleep(full / 2); b.wins(6) }},
		"own expired lease":                 {run: func(a, b *client) { a.wins(5); time.Sleep(full + 1); a.wins(6) }},
		"own expired lease adopted":         {wrong: true, run: func(a, b *client) { a.wins(5); time.Sleep(full + 1); a.wins(5) }},
		"expired term renewed":              {wrong: true, run: func(a, b *client) { a.wins(5); time.Sleep(full + 1); a.renews(5) }},
		"term renewed after a takeover":     {wrong: true, run: func(a, b *client) { a.wins(5); time.Sleep(full); b.wins(6); a.renews(5) }},
		"term renewed after its release":    {wrong: true, run: func(a, b *client) { a.wins(5); a.frees(5); a.renews(5) }},
		"term reported after its release":   {wrong: true, run: func(a, b *client) { a.wins(5); a.frees(5); b.sees(held(a, 5)) }},
		"release of an older term":          {run: func(a, b *client) { a.wins(5); a.frees(5); a.wins(6); a.frees(5); b.sees(held(a, 6)) }},
		"release of an older term works":    {wrong: true, run: func(a, b *client) { a.wins(5); a.frees(5); a.wins(6); a.frees(5); b.wins(7) }},
		"release of a foreign term works":   {wrong: true, run: func(a, b *client) { a.wins(5); b.frees(5); b.wins(6) }},
		"release of whatever term":          {run: func(a, b *client) { a.wins(5); a.frees(0); b.wins(6) }},
		"holder without a token":            {run: func(a, b *client) { a.wins(5); b.sees(held(a, 0)) }},

		"lost grant":                   {run: func(a, b *client) { a.loses(acquire, 0); b.sees(held(a, 5)); a.wins(5) }},
		"lost grant that never was":    {run: func(a, b *client) { a.loses(acquire, 0); b.sees(free); b.wins(5) }},
		"lost grant that came late":    {run: func(a, b *client) { a.loses(acquire, 0); b.wins(5); b.frees(5); b.sees(held(a, 6)) }},
		"lost grant in a held mutex":   {wrong: true, run: func(a, b *client) { a.loses(acquire, 0); b.wins(5); b.sees(held(a, 6)) }},
		"lost grant comes twice":       {wrong: true, run: func(a, b *client) { a.loses(acquire, 0); b.sees(held(a, 5)); a.frees(5); b.sees(held(a, 6)) }},
		"lost grant with an old token": {wrong: true, run: func(a, b *client) { b.wins(5); b.frees(5); a.loses(acquire, 0); b.sees(held(a, 5)) }},
		"lost renewal":                 {run: func(a, b *client) { a.wins(5); a.loses(renew, 5); time.Sleep(full); b.wins(6) }},
		"lost renewal that came late":  {run: func(a, b *client) { a.wins(5); a.loses(renew, 5); time.Sleep(2 * full); b.sees(held(a, 5)) }},
		"lost release":                 {run: func(a, b *client) { a.wins(5); a.loses(release, 5); b.wins(6) }},
		"lost release that never was":  {run: func(a, b *client) { a.wins(5); a.loses(release, 5); b.sees(held(a, 5)); a.renews(5) }},
		"lost release that came late":  {run: func(a, b *client) { a.wins(5); a.loses(release, 5); a.renews(5); b.sees(held(a, 5)); b.wins(6) }},
		"lost release of an older term": {wrong: true, run: func(a, b *client) {
			a.wins(5)
			a.loses(release, 5)
			b.wins(6)
			b.frees(6)
			a.wins(7)
			b.wins(8)
		}},
		"lost release of whatever term": {run: func(a, b *client) {
			a.wins(5)
			a.loses(release, 0)
			b.wins(6)
			b.frees(6)
			a.loses(release, 0)
			a.wins(7)
			b.wins(8)
		}},
		"lost release and lost grant": {run: func(a, b *client) { a.wins(5); a.loses(release, 5); b.loses(acquire, 0); a.sees(held(b, 6)) }},
		"lost grant and lost release": {run: func(a, b *client) { a.loses(acquire, 0); a.loses(release, 0); b.sees(held(a, 5)); b.wins(6) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var h History
				test.run(newClient(t, &h, "web-0_a"), newClient(t, &h, "web-1_b"))
				switch err := h.verify(); {
				case test.wrong && err == nil:
					t.Error("was accepted")
				case !test.wrong && err != nil:
					t.Errorf("was refused: %v", err)
				}
			})
		})
	}
}

// TestHistoryOfOverlappingCalls shows that calls may take effect anywhere between their start and end.
func TestHistoryOfOverlappingCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h History
		a, b := newClient(t, &h, "web-0_a"), newClient(t, &h, "web-1_b")
		a.wins(5)
		b.script.takes = time.Second
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.wins(6) // granted in the middle, after the release
		}()
		time.Sleep(500 * time.Millisecond)
		a.frees(5)
		<-done
		h.Check(t)

		go b.wins(6) // an adoption, executed before the release of the same term that ends first
		synctest.Wait()
		stale := newClient(t, &h, "web-1_b")
		stale.frees(6)
		stale.sees(free)
		time.Sleep(time.Minute)
		h.Check(t)
		if got := h.Terms(); got != 2 {
			t.Errorf("%d terms, want 2", got)
		}
	})
}

func TestHistoryOfCallsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h History
		a, b := newClient(t, &h, "web-0_a"), newClient(t, &h, "web-1_b")
		a.script.takes = time.Minute
		go a.wins(5)
		synctest.Wait()
		b.sees(held(a, 5))
		h.Check(t)
		b.wins(6)
		err := h.verify()
		time.Sleep(time.Minute)
		if err == nil {
			t.Fatal("a second grant beside the one in flight was accepted")
		}
		for _, part := range []string{"2 of 3 calls", "web-0_a: acquire: has not ended", `granted at 0.000s with token 6`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in the report:\n%v", part, err)
			}
		}
	})
}

func TestHistoryWithManyLostAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h History
		var clients []*client
		for i := range 8 {
			clients = append(clients, newClient(t, &h, fmt.Sprintf("web-%d", i)))
		}
		token := uint64(0)
		for range 30 {
			for _, c := range clients {
				c.loses(acquire, 0)
				c.loses(renew, token)
				c.loses(release, token)
				c.loses(release, 0)
				token++
				c.wins(token)
				c.sees(held(c, token))
				time.Sleep(full)
			}
		}
		h.Check(t)
		if got := h.Terms(); got != 240 {
			t.Errorf("%d terms, want 240", got)
		}
		clients[0].wins(token - 1)
		if h.verify() == nil {
			t.Error("a token from long ago was accepted")
		}
	})
}

// watched is a script that is a Watcher too.
type watched struct{ script }

func (*watched) Watch(context.Context, func()) error { return errLost }
func (*watched) Exclusive() bool                     { return true }

func TestRecordKeepsWatchers(t *testing.T) {
	t.Parallel()
	var h History
	if _, ok := h.Record(new(script), election.Contender{}).(election.Watcher); ok {
		t.Error("a Backend without hints became a Watcher")
	}
	w, ok := h.Record(new(watched), election.Contender{}).(election.Watcher)
	if !ok {
		t.Fatal("a Watcher is no Watcher any more")
	}
	if err := w.Watch(t.Context(), func() {}); !errors.Is(err, errLost) || !w.Exclusive() {
		t.Errorf("Watch = %v, Exclusive = %v, want those of the Backend", err, w.Exclusive())
	}
}
