package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestThreeProcessesHaveOneLeader(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		members := []*sidecar{startSidecar(t, store), startSidecar(t, store), startSidecar(t, store)}
		var last answer
		for len(members) > 0 {
			var leader *sidecar
			var now answer
			eventually(t, "one leader whom all others see", func() bool {
				leader = nil
				var others []answer
				for _, m := range members {
					switch a := m.ask(); {
					case a.code != http.StatusOK:
						others = append(others, a)
					case leader == nil:
						leader, now = m, a
					default:
						t.Fatalf("%s and %s lead", leader.url, m.url)
					}
				}
				return leader != nil && !slices.ContainsFunc(others, func(a answer) bool {
					return a.State != "standby" || a.Holder != now.Identity || a.Token != now.Token
				})
			})
			if now.Token <= last.Token {
				t.Errorf("token %d after %d", now.Token, last.Token)
			}
			last = now
			leader.send(syscall.SIGTERM)
			if code := leader.code(); code != 0 {
				t.Errorf("exit code after TERM: %d", code)
			}
			members = slices.DeleteFunc(members, func(m *sidecar) bool { return m == leader })
		}
	})
}

func TestHandsOverInOrder(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		d := dirs(t, "old", "new")
		next := changes(t, d...)
		old := startSidecar(t, store, "--dir", d[0])
		before := old.leads()
		if got := next(); got != "create old" {
			t.Fatal(got)
		}
		successor := startSidecar(t, store, "--dir", d[1])
		successor.standsBy()
		states := events(t, old)

		old.send(syscall.SIGTERM)
		for {
			event := next()
			if a := old.ask(); event != "create old" && a.code == http.StatusOK {
				t.Errorf("the old leader answers 200 after %q", event)
			}
			if event == "create old" { // a renewal just before
				continue
			}
			if event != "remove old" {
				t.Fatalf("%q before the old leader had removed its file", event)
			}
			break
		}
		if got := next(); got != "create new" {
			t.Fatal(got)
		}
		if after := successor.leads(); after.Token <= before.Token {
			t.Errorf("token %d after %d", after.Token, before.Token)
		}
		if code := old.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		told := states()
		if n := len(told); n < 2 || !strings.Contains(told[0], `"leader":true`) || !strings.Contains(told[1], `"state":"stepping-down"`) {
			t.Errorf("the old leader's clients were told:\n%s", strings.Join(told, "\n"))
		}
		if ok, _ := os.ReadFile(filepath.Join(d[0], "status.json")); !strings.Contains(string(ok), `"leader":false`) {
			t.Errorf("the old leader left behind: %s", ok)
		}
	})
}

func TestSuccessorOfAKilledLeaderWaitsForTheLease(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		d := dirs(t, "old")
		old := startSidecar(t, store, "--dir", d[0])
		before := old.leads()
		eventually(t, "a leader file", func() bool { return exists(filepath.Join(d[0], "leader")) })
		successor := startSidecar(t, store)
		successor.standsBy()
		old.send(syscall.SIGKILL)
		old.code()
		text, err := os.ReadFile(filepath.Join(d[0], "leader")) // which the old leader has left behind
		if err != nil {
			t.Fatal(err)
		}
		_, at, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		expires, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		after := successor.leads()
		if early := time.Until(time.UnixMilli(expires)); early > 0 {
			t.Errorf("led %v before the old leader's deadline", early)
		}
		if after.Token <= before.Token {
			t.Errorf("token %d after %d", after.Token, before.Token)
		}
	})
}

func TestFirstAnswerAfterAFreezeIsNo(t *testing.T) {
	onEachStore(t, func(t *testing.T, store string) {
		frozen := startSidecar(t, store)
		frozen.leads()
		successor := startSidecar(t, store)
		successor.standsBy()

		frozen.send(syscall.SIGSTOP)
		successor.leads()
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
	onEachStore(t, func(t *testing.T, store string) {
		d := dirs(t, "pod", "elsewhere")
		long := func(dir string) []string { return []string{"--ttl", "30s", "--transition", "3s", "--dir", dir} }
		old := startSidecar(t, store, long(d[0])...)
		before := old.leads()
		eventually(t, "a leader file", func() bool { return exists(filepath.Join(d[0], "leader")) })
		old.send(syscall.SIGKILL)
		old.code()

		other := startSidecar(t, store, long(d[1])...)
		other.standsBy()
		if a := other.ask(); a.Holder != before.Identity || a.Token != before.Token {
			t.Errorf("in another directory: %+v, want to wait for %s", a, before.Identity)
		}

		next := changes(t, d[0])
		again := startSidecar(t, store, long(d[0])...)
		after := again.leads()
		if after.Token != before.Token || after.Identity != before.Identity {
			t.Errorf("%s with token %d after %s with %d", after.Identity, after.Token, before.Identity, before.Token)
		}
		if got := next(); got != "create pod" { // rewritten in place of the old one, and never gone
			t.Error(got)
		}
	})
}

func TestTermOfAnotherMutexIsNotContinued(t *testing.T) {
	t.Parallel()
	store, d := t.TempDir(), dirs(t, "pod")
	old := startSidecar(t, store, "--dir", d[0])
	before := old.leads()
	eventually(t, "a leader file", func() bool { return exists(filepath.Join(d[0], "leader")) })
	old.send(syscall.SIGKILL)
	old.code()
	again := startSidecar(t, store, "--dir", d[0], "--mutex", "invoices")
	if after := again.leads(); after.Identity == before.Identity {
		t.Errorf("the identity of another mutex's term: %s", after.Identity)
	}
}

func TestSignalThatComesTwiceIsOne(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	s := startSidecar(t, store, "--ttl", "1h", "--transition", "6m")
	before := s.leads()
	free := holdStore(t, store) // so that it is still stopping when the second one comes
	s.send(syscall.SIGTERM)
	s.logged("stopping", "signal", "terminated")
	s.send(syscall.SIGTERM)
	free()
	if code := s.code(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if after := startSidecar(t, store).leads(); after.Token <= before.Token { // at once: the lease was an hour
		t.Errorf("token %d after %d", after.Token, before.Token)
	}
}

func TestSecondSignalExitsAtOnce(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	s := startSidecar(t, store, "--ttl", "1h", "--transition", "6m")
	s.leads()
	defer holdStore(t, store)() // so the release does not come through before the test is over
	s.send(syscall.SIGTERM)
	eventually(t, "stepping down", func() bool {
		a := s.ask()
		return a.code == http.StatusServiceUnavailable && a.State == "stepping-down"
	})
	s.send(syscall.SIGINT)
	if code := s.code(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if strings.Contains(s.log(), `"msg":"stopped"`) {
		t.Error("it has stopped in order, so the second signal did nothing")
	}
}

func TestUnreachableStoreEndsLeadingButNotTheProcess(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	s := startSidecar(t, store)
	s.leads()
	free := holdStore(t, store)
	eventually(t, "503 at the deadline", func() bool { return s.ask().code == http.StatusServiceUnavailable })
	if code, body := get(t, http.MethodGet, s.url+"/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, body)
	}
	free()
	s.leads()
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s := launch(t, program(t, nil, append(contend(store), "--admin-listen", "off", "--listen", l.Addr().String())...))
	if code := s.code(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if log := s.log(); !strings.Contains(log, "--listen "+l.Addr().String()) || !strings.Contains(log, "address already in use") {
		t.Errorf("log:\n%s", log)
	}
	if states, _ := filepath.Glob(filepath.Join(store, "*.json")); len(states) > 0 {
		t.Errorf("it contended: %q", states)
	}
}

func TestDirectoryOfAnotherSidecar(t *testing.T) {
	t.Parallel()
	store, d := t.TempDir(), dirs(t, "pod")
	first := startSidecar(t, store, "--dir", d[0])
	second := launch(t, program(t, nil, append(contend(store), "--listen", "off", "--admin-listen", "off", "--dir", d[0])...))
	if code := second.code(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	eventually(t, "the pid in the log", func() bool { return strings.Contains(second.log(), "pid "+strconv.Itoa(first.Process.Pid)) })
}

func TestObserverNeverLeads(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	observer := startSidecar(t, store, "--observe")
	eventually(t, "observer", func() bool { return observer.ask().State == "observer" })
	leader := startSidecar(t, store)
	a := leader.leads()
	eventually(t, "the leader as seen by the observer", func() bool { o := observer.ask(); return o.Holder == a.Identity && o.Token == a.Token })
	if o := observer.ask(); o.code != http.StatusServiceUnavailable {
		t.Errorf("an observer answers %d", o.code)
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	s := startSidecar(t, store, "--admin-listen", "127.0.0.1:0", "--name", "web 0")
	admin := "http://" + s.logged("listening", "for", "admin-listen")["address"].(string)
	a := s.leads()
	if a.Name != "web-0" || !strings.HasPrefix(a.Identity, "web-0_") {
		t.Errorf("name %q, identity %q", a.Name, a.Identity)
	}
	for _, path := range []string{"/livez", "/readyz", "/"} {
		if code, body := get(t, http.MethodGet, s.url+path); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	_, metrics := get(t, http.MethodGet, s.url+"/metrics")
	for _, want := range []string{
		`simba_leader{backend="local",mutex="orders"} 1`,
		`simba_transitions_total{backend="local",mutex="orders",reason="acquired"} 1`,
		`version="dev"`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s:\n%s", want, metrics)
		}
	}

	successor := startSidecar(t, store)
	successor.standsBy()
	if code, body := get(t, http.MethodPost, admin+"/step-down"); code != http.StatusOK {
		t.Errorf("/step-down: %d %s", code, body)
	}
	successor.leads()
	if code, body := get(t, http.MethodPost, admin+"/quit"); code != http.StatusAccepted {
		t.Errorf("/quit: %d %s", code, body)
	}
	if code := s.code(); code != 0 {
		t.Errorf("exit code after /quit: %d", code)
	}
}

func TestStartIsLogged(t *testing.T) {
	t.Parallel()
	s := launch(t, program(t, []string{"SIMBA_MUTX=m", "SIMBA_WEB_SERVICE_HOST=10.0.0.1"},
		append(contend(t.TempDir()), "--listen", "off", "--admin-listen", "off")...))
	fields := s.logged("contending", "mutex", "orders")
	if fields["lease"] != "3s" || fields["worst_failover"] != "3.25s" {
		t.Errorf("log line: %v", fields)
	}
	if w := s.logged("unknown environment variable ignored", "variable", "SIMBA_MUTX"); w["nearest"] != "SIMBA_MUTEX" {
		t.Errorf("warning: %v", w)
	}
	if strings.Contains(s.log(), "SIMBA_WEB_SERVICE_HOST") {
		t.Errorf("warns about what Kubernetes injects:\n%s", s.log())
	}
	s.send(syscall.SIGINT)
	if code := s.code(); code != 0 {
		t.Errorf("exit code after INT: %d", code)
	}
}

func TestFailFast(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	s := launch(t, program(t, nil, "--mutex", "m", "--backend", "mysql://nobody@127.0.0.1:1/none", "--listen", "off", "--admin-listen", "off", "--fail-fast"))
	if code := s.code(); code != 1 {
		t.Errorf("exit code %d, want 1; store %s", code, store)
	}
}
