package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// Processes contend for one mutex, and write into a journal what they do between grant and release. One
// that is in the middle of a term is killed now and then.
const (
	processes, perProcess = 3, 4
	shortLease            = 1500 * time.Millisecond
	wantTerms, wantCuts   = 150, 3
)

func TestProcessesExcludeEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	journal := filepath.Join(dir, "journal")
	if err := os.WriteFile(journal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	type process struct {
		name string
		send func(os.Signal)
		end  func() error
	}
	start := func(name string) *process {
		cmd := child(t, "contend", dir, "LOCAL_TEST_NAME="+name)
		var out bytes.Buffer
		cmd.Stdout = &out
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return &process{
			name: name,
			send: func(s os.Signal) { _ = cmd.Process.Signal(s) },
			end: func() error {
				_ = stdin.Close()
				if err := cmd.Wait(); err != nil {
					return fmt.Errorf("process %s: %w: %s", name, err, &out)
				}
				return nil
			},
		}
	}
	running := map[string]*process{}
	for i := range processes {
		name := fmt.Sprint("first", i)
		running[name] = start(name)
	}
	kills := 0
	for deadline, poll := time.Now().Add(2*time.Minute), time.Tick(10*time.Millisecond); ; <-poll {
		h := readJournal(t, journal)
		if h.terms >= wantTerms && h.cutOff >= wantCuts {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %d terms, %d of them cut off", h.terms, h.cutOff)
		}
		victim := running[h.leading]
		if victim == nil || h.terms < (h.cutOff+1)*wantTerms/(wantCuts+1) {
			continue
		}
		// Stopped first, to see whether it is still in that term.
		victim.send(syscall.SIGSTOP)
		if readJournal(t, journal).leading != victim.name {
			victim.send(syscall.SIGCONT)
			continue
		}
		victim.send(syscall.SIGKILL)
		_ = victim.end() // its error is the kill
		delete(running, victim.name)
		kills++
		name := fmt.Sprint("next", kills)
		running[name] = start(name)
	}
	for _, p := range running {
		if err := p.end(); err != nil {
			t.Error(err)
		}
	}
	h := readJournal(t, journal)
	t.Logf("%d terms, %d of them cut off by a kill", h.terms, h.cutOff)
}

// history is what a journal says so far.
type history struct {
	terms, cutOff int
	leading       string // the process in the middle of a term, or ""
}

// readJournal fails the test if a term begins while another is under way that was neither left nor ran
// out, or if its token is not larger than the one before. A process may be so slow that its term runs
// out unnoticed; what it writes about that term afterwards is of no interest.
func readJournal(t *testing.T, path string) (h history) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var last uint64
	var holder string
	var entered, until time.Duration
	for line := range strings.Lines(string(content)) {
		var what, process string
		var token uint64
		var began, at time.Duration
		if _, err := fmt.Sscan(line, &what, &process, &token, &began, &at); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch {
		case what == "enter" && token <= last:
			t.Fatalf("token %d after %d", token, last)
		case what == "enter" && at < until:
			t.Fatalf("%s entered with token %d, %v before the lease of %s with %d ran out", process, token, until-at, holder, last)
		case what == "enter":
			if holder != "" {
				h.cutOff++
			}
			h.terms++
			last, holder, entered, until = token, process, at, began+shortLease
		case what == "renew" && token != last && began > entered:
			t.Fatalf("%s renewed token %d after %d had begun", process, token, last)
		case what == "renew" && token == last:
			until = began + shortLease
		case what == "leave" && token == last:
			holder, until = "", 0
		}
	}
	h.leading = holder
	return h
}

// contend runs perProcess contenders until standard input ends.
func contend(dir, name string) error {
	journal, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { _ = journal.Close() }()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	errs := make(chan error, perProcess)
	var wait sync.WaitGroup
	for i := range perProcess {
		c := contender("orders", fmt.Sprint(name, "_", i))
		c.TTL, c.Transition = time.Second, shortLease-time.Second
		wait.Go(func() {
			for ctx.Err() == nil {
				if err := lead(context.WithoutCancel(ctx), dir, name, c, journal); err != nil {
					errs <- err
					return
				}
				<-time.After(rand.N(4 * time.Millisecond))
			}
		})
	}
	wait.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// lead tries once, as a new process would, and if it wins renews a few times and releases.
func lead(ctx context.Context, dir, name string, c election.Contender, journal *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	b, err := Open(dir, c, nil)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	write := func(what string, token uint64, began time.Duration) error {
		at, err := boottime()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(journal, what, name, token, int64(began), int64(at))
		return err
	}
	began, err := boottime()
	if err != nil {
		return err
	}
	won, err := b.Acquire(ctx)
	if err != nil || won.Holder != c.Identity {
		return err
	}
	if err := write("enter", won.Token, began); err != nil {
		return err
	}
	for range rand.N(3) {
		<-time.After(rand.N(4 * time.Millisecond)) // long enough to be stopped in
		if began, err = boottime(); err != nil {
			return err
		}
		switch l, err := b.Renew(ctx, won.Token); {
		case err != nil:
			return err
		case l != won:
			return nil // the term ran out on a slow machine
		}
		if err := write("renew", won.Token, began); err != nil {
			return err
		}
	}
	if err := write("leave", won.Token, 0); err != nil {
		return err
	}
	return b.Release(ctx, won.Token)
}
