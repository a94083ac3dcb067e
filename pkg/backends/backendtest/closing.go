package backendtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime/pprof"
	"strconv"
	"testing"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func (s *suite) closing() []test {
	return []test{
		{"LeavesNothingBehind", s.leavesNothingBehind},
		{"WithoutACall", s.closeWithoutACall},
		{"EndsTheCalls", s.closeEndsTheCalls},
	}
}

func (s *suite) closeWithoutACall(t *testing.T) {
	b, err := s.Open(s.Addr, patient(newMutex(), "web-0_a"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := within(t, "close", b.Close); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// closeEndsTheCalls shows that a closed Backend does not come back to life: a call that was late to start
// would leave a connection behind, or take a mutex for a process that is gone.
func (s *suite) closeEndsTheCalls(t *testing.T) {
	mutex := newMutex()
	a, b := s.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b")
	token := a.wins(t).Token
	a.release(t, token)
	if err := a.backend.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for _, v := range calls {
		if answer, err := a.try(t, limit(t), v, token); err == nil {
			t.Errorf("%s after close answered %+v", v, answer.Lease)
		}
	}
	b.seesFree(t)
}

// leavesNothingBehind opens, uses and closes Backends many times, and then counts what is left of them:
// goroutines, connections and open files. Other tests run meanwhile, so goroutines are told apart by a
// label, which they inherit, and connections by their own proxy.
func (s *suite) leavesNothingBehind(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	var proxy *faultproxy.Proxy
	if s.Addr != "" {
		proxy = s.proxy(t)
	}
	mutex := newMutex()
	const label = "backendtest"
	files := openFiles()
	pprof.Do(context.WithoutCancel(t.Context()), pprof.Labels(label, mutex), func(ctx context.Context) {
		for i := range rounds {
			c := s.open(t, patient(mutex, fmt.Sprintf("web-%d", i)), proxy)
			c.useAndClose(ctx, t, i)
		}
	})
	eventually(t, "the goroutines of closed backends to end", func() bool {
		n, _ := goroutines(label, mutex)
		return n == 0 || t.Failed()
	})
	if n, stacks := goroutines(label, mutex); n > 0 {
		t.Errorf("%d goroutines are left of %d closed backends:\n%s", n, rounds, stacks)
	}
	if proxy != nil {
		eventually(t, "the connections of closed backends to end", func() bool { return proxy.Open() == 0 })
	}
	// Other tests open files too, but not as many as a leak of one in each round leaves.
	eventually(t, "the files of closed backends to be closed", func() bool { return openFiles()-files < rounds*3/4 })
}

// useAndClose makes every call once, in some rounds beside a Watch.
func (c *contender) useAndClose(ctx context.Context, t *testing.T, round int) {
	t.Helper()
	var watching chan error
	if w, ok := c.backend.(election.Watcher); ok && round%4 == 0 {
		stands, once := make(chan struct{}), false
		watching = make(chan error, 1)
		go func() {
			watching <- w.Watch(ctx, func() {
				if !once {
					once = true
					close(stands)
				}
			})
		}()
		receive(t, "the subscription to stand", stands)
	}
	c.observe(t)
	token := c.wins(t).Token
	c.renews(t, token)
	c.release(t, token)
	if err := within(t, "close", c.backend.Close); err != nil {
		t.Errorf("close: %v", err)
	}
	if watching != nil {
		if err := receive(t, "watch to end with its Backend", watching); err == nil {
			t.Error("watch returned no error although its context has not ended")
		}
	}
}

// goroutines counts the goroutines that carry the label, and returns their stacks.
func goroutines(key, value string) (n int, stacks []byte) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return 0, nil
	}
	label := fmt.Appendf(nil, "%q:%q", key, value)
	count := regexp.MustCompile(`(?m)^(\d+) @ `)
	for block := range bytes.SplitSeq(profile.Bytes(), []byte("\n\n")) {
		if m := count.FindSubmatch(block); m != nil && bytes.Contains(block, label) {
			of, _ := strconv.Atoi(string(m[1]))
			n += of
			stacks = append(append(stacks, block...), '\n')
		}
	}
	return n, stacks
}

// openFiles counts this process's open files, sockets included; 0 where the system does not tell.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
