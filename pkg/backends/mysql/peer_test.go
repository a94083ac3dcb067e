package mysql

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// peer is a contender as the JVM library is one: it polls, and has no hints. It speaks through the mariadb
// client, so that nothing of this package is involved.
type peer struct {
	*store
	identity string
}

// run returns what a statement answers, without column names.
func (p peer) run(ctx context.Context, statement string) (string, error) {
	host, port, err := net.SplitHostPort(p.Addr())
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--skip-ssl", "--protocol=tcp", "--user=root", "--host="+host, "--port="+port,
		"--batch", "--skip-column-names", "--database="+p.database, "--execute="+statement)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

const peerNow = "floor(unix_timestamp(current_timestamp(3)) * 1000)"

func (p peer) acquire(ctx context.Context) (bool, error) {
	out, err := p.run(ctx, fmt.Sprintf("update simba_mutex set fencing_token = fencing_token + 1, acquired_at = %[1]s, ttl_at = %[1]s + 2000,"+
		" transition_at = %[1]s + 2500, owner_id = '%[2]s', version = version + 1 where mutex = 'orders' and transition_at < %[1]s;"+
		" select row_count()", peerNow, p.identity))
	return out == "1", err
}

func (p peer) release(ctx context.Context) error {
	_, err := p.run(ctx, "update simba_mutex set acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '',"+
		" version = version + 1 where mutex = 'orders' and owner_id = '"+p.identity+"'")
	return err
}

// contend takes the mutex again and again, until ctx ends.
func (p peer) contend(ctx context.Context, r *race, terms *atomic.Int32) error {
	for ctx.Err() == nil {
		got, err := p.acquire(context.WithoutCancel(ctx)) // not half
		if err != nil {
			return err
		}
		if !got {
			wait(ctx, 100*time.Millisecond)
			continue
		}
		r.enter()
		terms.Add(1)
		wait(ctx, 200*time.Millisecond)
		r.leave()
		if err := p.release(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		wait(ctx, 300*time.Millisecond)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func TestSharesTheMutexWithContendersThatPoll(t *testing.T) {
	if _, err := exec.LookPath("mariadb"); err != nil {
		t.Skip("needs the mariadb client: apt-get install mariadb-client")
	}
	onEach(t, func(t *testing.T, s *store) {
		r := newRace()
		var sidecars []*runner
		for _, name := range []string{"web-0", "web-1"} {
			sidecars = append(sidecars, r.run(t, s.location(), contender(name)))
		}
		r.next(t) // the table and the row are there
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var theirs, ours atomic.Int32
		ended := make(chan error, 2)
		for _, name := range []string{"0:1@10.0.0.1", "0:1@10.0.0.2"} {
			go func() { ended <- peer{s, name}.contend(ctx, r, &theirs) }()
		}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(patience); theirs.Load() < 8 || ours.Load() < 8; <-tick.C {
			select {
			case <-r.won:
				ours.Add(1)
			case err := <-ended:
				t.Fatalf("peer: %v", err)
			default:
			}
			for _, w := range sidecars {
				if w.State().Leading() {
					if err := w.StepDown(t.Context(), 500*time.Millisecond); err != nil {
						t.Error(err)
					}
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d terms of theirs and %d of ours", theirs.Load(), ours.Load())
			}
		}
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("peer: %v", err)
			}
		}
		t.Logf("%d terms of theirs, %d of ours", theirs.Load(), ours.Load())
		if n := r.most.Load(); n != 1 {
			t.Errorf("%d led at once", n)
		}
	})
}

func TestOnlyTheHeadOfTheQueuePollsAHolderWithoutHints(t *testing.T) {
	if _, err := exec.LookPath("mariadb"); err != nil {
		t.Skip("needs the mariadb client: apt-get install mariadb-client")
	}
	onEach(t, func(t *testing.T, s *store) {
		c := contender("")
		c.TTL, c.Transition = 30*time.Second, 5*time.Second
		c.Identity = "first"
		b := open(t, s.location(), c, nil)
		wins(t, b, "first")
		release(t, b, 0)
		p := peer{s, "0:1@10.0.0.1"}
		if got, err := p.acquire(t.Context()); err != nil || !got {
			t.Fatalf("the peer has not got the mutex: %v", err)
		}
		s.exec(t, "update simba_mutex set transition_at = transition_at + 60000")
		r := newRace()
		for i := range 10 {
			c.Identity = fmt.Sprintf("c%d", i)
			r.run(t, s.location(), c)
		}
		eventually(t, "all but the head to wait", func() bool { return s.connections(t, "User lock") == 9 })
		// Until then everybody may still look because of having started.
		eventually(t, "the head to look", func() bool { return r.count("observe").Load() >= 25 })
		before, begin := r.count("observe").Load(), time.Now()
		eventually(t, "the head to look", func() bool { return r.count("observe").Load() >= before+8 })
		looks, took := r.count("observe").Load()-before, time.Since(begin)
		t.Logf("%d looks in %v", looks, took)
		if most := int64(took/lookAgain) + 1; looks > most {
			t.Errorf("%d looks in %v, want at most %d", looks, took, most)
		}
		begin = time.Now()
		if err := p.release(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.next(t)
		t.Logf("taken over after %v", time.Since(begin))
		if r.count("acquire").Load() != 1 {
			t.Errorf("%d acquires, want 1", r.count("acquire").Load())
		}
	})
}
