package main

import (
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

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
	log := s.log()
	for _, part := range []string{"--listen " + l.Addr().String(), "address already in use", "choose a free address, such as :4042, or off"} {
		if !strings.Contains(log, part) {
			t.Errorf("the log lacks %q:\n%s", part, log)
		}
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
