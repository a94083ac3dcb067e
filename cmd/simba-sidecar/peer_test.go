package main

import (
	"context"
	"database/sql"
	"io"
	"iter"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/testserver"
)

// peer is a contender that is a shell script, see testdata/peer.sh.
type peer struct {
	*proc
	identity string
	stdin    io.Closer
}

func startPeer(t *testing.T, server *testserver.SQLServer, database, identity string) *peer {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join("testdata", "peer.sh"), identity,
		"--no-defaults", "--skip-ssl", "--protocol=tcp", "--user=root", "--host="+host, "--port="+port, "--database="+database)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	return &peer{launch(t, cmd), identity, stdin}
}

// claims ends the peer and returns when it led in its own view.
func (p *peer) claims() (claims []claim) {
	p.t.Helper()
	_ = p.stdin.Close()
	if code := p.code(); code != 0 {
		p.t.Errorf("%s: exit code %d", p.identity, code)
	}
	for line := range strings.Lines(p.stdout.String()) {
		at, token, _ := strings.Cut(strings.TrimSpace(line), " ")
		micros, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			p.t.Fatalf("%s says %q", p.identity, line)
		}
		number, err := strconv.ParseUint(token, 10, 64)
		if err != nil {
			p.t.Fatalf("%s says %q", p.identity, line)
		}
		when := time.UnixMicro(micros)
		claims = append(claims, claim{p.identity, number, when, when})
	}
	return claims
}

// isPeer tells by an identity's form whose it is.
func isPeer(identity string) bool { return strings.Contains(identity, "@") }

// entry is what the row of the mutex once was.
type entry struct {
	version    uint64 // counts who took and who released it
	owner      string // "" after a release
	token      uint64
	began, end int64 // milliseconds, by the database's clock
}

// history is what became of the row, as far as somebody who looks often can see.
type history struct {
	mu      sync.Mutex
	entries []entry
}

func newHistory(t *testing.T, db *sql.DB) *history {
	h := &history{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var looking sync.WaitGroup
	looking.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
			if err := h.look(ctx, db); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); looking.Wait() })
	return h
}

func (h *history) look(ctx context.Context, db *sql.DB) error {
	var e entry
	err := db.QueryRowContext(ctx, "select version, owner_id, fencing_token, acquired_at, transition_at from simba_mutex where mutex = 'orders'").
		Scan(&e.version, &e.owner, &e.token, &e.began, &e.end)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.entries); n > 0 && h.entries[n-1].version == e.version {
		h.entries[n-1] = e // renewed
	} else {
		h.entries = append(h.entries, e)
	}
	return nil
}

func (h *history) soFar() []entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.entries)
}

// terms leaves the releases out.
func terms(entries []entry) []entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return e.owner == "" })
}

// pairs returns each element that has a next one, with that.
func pairs[E any](all []E) iter.Seq2[E, E] {
	return func(yield func(E, E) bool) {
		for i := 1; i < len(all) && yield(all[i-1], all[i]); i++ {
		}
	}
}

// TestNeverTwoOwnersBesidePeers has two peers and two sidecars pass a mutex on, in both directions.
func TestNeverTwoOwnersBesidePeers(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("mariadb"); err != nil {
		t.Skip("needs the mariadb client: apt-get install mariadb-client")
	}
	for kind, d := range databases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := d.shared.Get(t)
			shareWithPeers(t, server, server.Database(t))
		})
	}
}

func shareWithPeers(t *testing.T, server *testserver.SQLServer, database string) {
	var sidecars []*sidecar
	for range 2 {
		sidecars = append(sidecars, startSidecar(t, server.URL(database), "--ttl", "1s", "--transition", "500ms", "--admin-listen", "127.0.0.1:0"))
	}
	w := newWitness(t)
	w.follow(t, sidecars...)
	agree(t, sidecars) // the table and the row are there
	h := newHistory(t, server.DB(t, database))
	peers := []*peer{
		startPeer(t, server, database, "0:1@10.0.0.1"),
		startPeer(t, server, database, "0:1@10.0.0.2"),
	}

	admin := map[*sidecar]string{}
	for _, s := range sidecars {
		admin[s] = "http://" + s.logged("listening", "for", "admin-listen")["address"].(string)
	}
	var fromPeers, toPeers int
	led := map[uint64]bool{} // tokens with which a sidecar answered 200
	heard := map[string]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for fromPeers < 2 || toPeers < 2 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d times from a peer to a sidecar, %d times back: %+v", fromPeers, toPeers, h.soFar())
		}
		for _, s := range sidecars {
			a := s.ask()
			heard[a.Holder] = true
			if a.code != http.StatusOK {
				continue
			}
			led[a.Token] = true
			if time.Since(a.Since) < time.Second {
				continue
			}
			// Now the other sidecar may lead at once, and when that has led, peers.
			if code, body := get(t, http.MethodPost, admin[s]+"/step-down?cooldown=4s"); code != http.StatusOK {
				t.Errorf("/step-down: %d %s", code, body)
			}
		}
		fromPeers, toPeers = 0, 0
		for last, next := range pairs(terms(h.soFar())) {
			switch {
			case isPeer(last.owner) && led[next.token]:
				fromPeers++
			case led[last.token] && isPeer(next.owner):
				toPeers++
			}
		}
	}

	for _, p := range peers {
		claims := p.claims()
		t.Logf("%s: %d claims", p.identity, len(claims))
		w.add(claims...)
	}
	claims, entries := w.soFar(), h.soFar()
	t.Logf("%d terms, %d times from a peer to a sidecar, %d times back", len(terms(entries)), fromPeers, toPeers)
	owners := map[uint64]string{}
	for _, e := range terms(entries) {
		owners[e.token] = e.owner
	}
	for last, next := range pairs(entries) {
		if next.owner == "" {
			continue
		}
		if next.token <= last.token { // a release leaves the token as it is
			t.Errorf("token %d after %d", next.token, last.token)
		}
		if last.owner != "" && next.version == last.version+1 && next.began <= last.end {
			t.Errorf("%s took the mutex from %s, %d ms before its lease was over", next.owner, last.owner, last.end-next.began)
		}
	}
	for _, c := range claims {
		if owner, ok := owners[c.token]; ok && c.who != owner {
			t.Fatalf("%s leads with token %d, which is %q's", c.who, c.token, owner)
		}
	}
	if !heard[peers[0].identity] && !heard[peers[1].identity] {
		t.Error("no sidecar ever said that a peer was the holder")
	}
}
