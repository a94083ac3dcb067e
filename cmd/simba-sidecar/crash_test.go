package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSuccessorOfAKilledLeaderWaitsForTheLease(t *testing.T) {
	stores(t, func(t *testing.T, st site) {
		dir := dirs(t, "old")[0]
		old := startSidecar(t, st.url, "--dir", dir)
		before := old.leads()
		file := leaderFile(t, dir)
		successor, another := startSidecar(t, st.url), startSidecar(t, st.url)
		successor.standsBy()
		another.standsBy()
		newWitness(t).follow(t, successor, another)
		old.send(syscall.SIGKILL)
		old.code()
		killed := time.Now()

		text, err := os.ReadFile(file) // which the old leader has left behind
		if err != nil {
			t.Fatal(err)
		}
		_, at, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		deadline, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		var leaders []*sidecar
		eventually(t, "a successor", func() bool {
			leaders = leadersOf([]*sidecar{successor, another})
			return len(leaders) > 0
		})
		now := time.Now()
		// Others wait for as long as transition says after the old leader had to stop. A renewal may have come through
		// that is not in the file, which makes it later.
		if early := time.UnixMilli(deadline).Add(transition).Sub(now); early > 0 {
			t.Errorf("led %v before the old leader's lease was over", early)
		}
		lease := ttl + transition
		t.Logf("led %v after the kill; a lease is %v", now.Sub(killed), lease)
		if took := now.Sub(killed); took > 2*lease {
			t.Errorf("led only %v after the kill, a lease is %v", took, lease)
		}
		if after := leaders[0].leads(); after.Token <= before.Token {
			t.Errorf("token %d after %d", after.Token, before.Token)
		}
	})
}

func TestFirstAnswerAfterAFreezeIsNo(t *testing.T) {
	stores(t, func(t *testing.T, st site) {
		frozen := startSidecar(t, st.url)
		before := frozen.leads()
		successor := startSidecar(t, st.url)
		successor.standsBy()
		newWitness(t).follow(t, successor)

		frozen.send(syscall.SIGSTOP)
		if after := successor.leads(); after.Token <= before.Token {
			t.Errorf("token %d after %d", after.Token, before.Token)
		}
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(frozen.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		// The kernel keeps the question until the process wakes.
		if _, err := fmt.Fprint(conn, "GET /leader HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		frozen.send(syscall.SIGCONT)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, "503") {
			t.Errorf("first answer: %q, %v", line, err)
		}
		frozen.standsBy()
		if a := successor.ask(); a.code != http.StatusOK {
			t.Errorf("the successor answers %d afterwards", a.code)
		}
	})
}

func TestRestartInTheSameDirectoryContinuesTheTerm(t *testing.T) {
	stores(t, func(t *testing.T, st site) {
		d := dirs(t, "pod", "elsewhere")
		long := func(dir string) []string { return []string{"--ttl", "30s", "--transition", "3s", "--dir", dir} }
		old := startSidecar(t, st.url, long(d[0])...)
		before := old.leads()
		leaderFile(t, d[0])
		old.send(syscall.SIGKILL)
		old.code()

		other := startSidecar(t, st.url, long(d[1])...)
		other.standsBy()
		waits := func() {
			t.Helper()
			if a := other.ask(); a.code == http.StatusOK || a.Holder != before.Identity || a.Token != before.Token {
				t.Errorf("in another directory: %+v, want to wait for %s", a, before.Identity)
			}
		}
		waits()

		next := changes(t, d[0])
		again := startSidecar(t, st.url, long(d[0])...)
		after := again.leads()
		if after.Token != before.Token || after.Identity != before.Identity {
			t.Errorf("%s with token %d after %s with %d", after.Identity, after.Token, before.Identity, before.Token)
		}
		if got := next(); got != "create pod" { // rewritten in place of the old one, and never gone
			t.Error(got)
		}
		if got := st.row(t); got != (row{before.Identity, before.Token}) {
			t.Errorf("the store has %+v", got)
		}
		waits()
	})
}

func TestTermOfAnotherMutexIsNotContinued(t *testing.T) {
	t.Parallel()
	store, d := t.TempDir(), dirs(t, "pod")
	old := startSidecar(t, store, "--dir", d[0])
	before := old.leads()
	leaderFile(t, d[0])
	old.send(syscall.SIGKILL)
	old.code()
	again := startSidecar(t, store, "--dir", d[0], "--mutex", "invoices")
	if after := again.leads(); after.Identity == before.Identity {
		t.Errorf("the identity of another mutex's term: %s", after.Identity)
	}
}
