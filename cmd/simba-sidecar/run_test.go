package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// startRun starts `run` with a shell script as its command.
func startRun(t *testing.T, store, script string, flags ...string) *proc {
	t.Helper()
	args := append(append([]string{"run"}, contend(store)...), flags...)
	return launch(t, program(t, nil, append(args, "--", "sh", "-c", script)...))
}

func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command []string
		want    int
	}{
		"success":          {[]string{"true"}, 0},
		"command's own":    {[]string{"sh", "-c", "exit 7"}, 7},
		"killed":           {[]string{"sh", "-c", "kill -KILL $$"}, 128 + 9},
		"not found":        {[]string{"no-such-command-anywhere"}, 127},
		"no such path":     {[]string{"/no/such/command"}, 127},
		"not executable":   {[]string{"/etc/passwd"}, 126},
		"is a directory":   {[]string{"/etc"}, 126},
		"wrong usage":      {nil, 125},
		"no interpreter":   {[]string{script(t, "#!/no/such/interpreter\n")}, 127},
		"not a program":    {[]string{script(t, "\x00\x01")}, 126},
		"arguments intact": {[]string{"sh", "-c", `test "$1" = "a b" && test "$2" = --mutex`, "sh", "a b", "--mutex"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{"run"}, contend(t.TempDir())...), "--")
			p := launch(t, program(t, nil, append(args, c.command...)...))
			if code := p.code(); code != c.want {
				t.Errorf("exit code %d, want %d", code, c.want)
			}
		})
	}
}

// script writes an executable file.
func script(t *testing.T, text string) string {
	t.Helper()
	path := writeFile(t, filepath.Join(t.TempDir(), "script"), text)
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunEnvironment(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	cmd := program(t, []string{"SIMBA_BACKEND=local:" + store, "SIMBA_PASSWORD=secret", "SIMBA_TOKEN=1", "SIMBA_TTL=5s", "OTHER="},
		"run", "--mutex", "nightly", "--name", "web-0", "--", "env")
	p := launch(t, cmd)
	if code := p.code(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	got := map[string]string{}
	for line := range strings.Lines(p.stdout.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[name] = value
	}
	if token, err := strconv.ParseUint(got["SIMBA_TOKEN"], 10, 64); err != nil || token <= 1 {
		t.Errorf("SIMBA_TOKEN=%s", got["SIMBA_TOKEN"])
	}
	if got["SIMBA_MUTEX"] != "nightly" || !strings.HasPrefix(got["SIMBA_HOLDER"], "web-0_") {
		t.Errorf("SIMBA_MUTEX=%s SIMBA_HOLDER=%s", got["SIMBA_MUTEX"], got["SIMBA_HOLDER"])
	}
	for _, secret := range []string{"SIMBA_BACKEND", "SIMBA_PASSWORD"} {
		if value, ok := got[secret]; ok {
			t.Errorf("the command inherits %s=%s", secret, value)
		}
	}
	if _, ok := got["OTHER"]; !ok || got["SIMBA_TTL"] != "5s" {
		t.Errorf("the command does not inherit the rest: %v", got)
	}
	if strings.Contains(p.log(), "listening") {
		t.Errorf("listeners are open:\n%s", p.log())
	}
}

func TestRunsOneCommandAtATime(t *testing.T) {
	t.Parallel()
	store, journal := t.TempDir(), filepath.Join(t.TempDir(), "journal")
	var all []*proc
	for range 3 {
		all = append(all, startRun(t, store, "echo begin >>"+journal+"; sleep 0.2; echo end >>"+journal))
	}
	for _, p := range all {
		if code := p.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); got != strings.Repeat("begin\nend\n", 3) {
		t.Errorf("the commands overlapped:\n%s", got)
	}
}

func TestRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		signal syscall.Signal
		want   int
	}{{syscall.SIGTERM, 3}, {syscall.SIGINT, 4}} {
		ready := filepath.Join(t.TempDir(), "ready")
		p := startRun(t, t.TempDir(), "trap 'exit 3' TERM; trap 'exit 4' INT; touch "+ready+"; while :; do sleep 0.05; done")
		eventually(t, "command", func() bool { return exists(ready) })
		p.send(c.signal)
		if code := p.code(); code != c.want {
			t.Errorf("%v: exit code %d, want %d", c.signal, code, c.want)
		}
	}
}

func TestRunSignalledWhileWaiting(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	startSidecar(t, store).leads()
	p := startRun(t, store, "exit 0")
	p.logged("contending", "mutex", "orders")
	p.send(syscall.SIGTERM)
	if code := p.code(); code != 128+15 {
		t.Errorf("exit code %d, want 143", code)
	}
}

func TestRunKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	store, ready := t.TempDir(), filepath.Join(t.TempDir(), "ready")
	p := startRun(t, store, "trap '' TERM; touch "+ready+"; while :; do sleep 0.05; done", "--stop-timeout", "100ms", "--ttl", "1h", "--transition", "6m")
	eventually(t, "command", func() bool { return exists(ready) })
	p.send(syscall.SIGTERM)
	if code := p.code(); code != 128+9 {
		t.Errorf("exit code %d, want 137", code)
	}
}

// TestRunReleasesAfterTheCommandHasEnded has a command that needs several leases to stop.
func TestRunReleasesAfterTheCommandHasEnded(t *testing.T) {
	t.Parallel()
	store, dir := t.TempDir(), t.TempDir()
	ready, ended := filepath.Join(dir, "ready"), filepath.Join(dir, "ended")
	short := []string{"--ttl", "1s", "--transition", "500ms", "--stop-timeout", "1m"}
	first := startRun(t, store, "trap 'sleep 5; touch "+ended+"; exit 5' TERM; touch "+ready+"; while :; do sleep 0.05; done", short...)
	eventually(t, "command", func() bool { return exists(ready) })
	second := startRun(t, store, "test -e "+ended, short...)
	second.logged("contending", "mutex", "orders")
	first.send(syscall.SIGTERM)
	if code := first.code(); code != 5 {
		t.Errorf("exit code %d, want the command's own 5", code)
	}
	if code := second.code(); code != 0 {
		t.Error("another command was started before the first had ended")
	}
}

func TestRunEndsTheCommandWhenLeadershipIsLost(t *testing.T) {
	t.Parallel()
	for name, trap := range map[string]string{"in order": "trap 'exit 0' TERM", "by force": "trap '' TERM"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pid := t.TempDir(), filepath.Join(t.TempDir(), "pid")
			p := startRun(t, store, trap+"; echo $$ >"+pid+".tmp; mv "+pid+".tmp "+pid+"; while :; do sleep 0.05; done", "--stop-timeout", "1h")
			eventually(t, "command", func() bool { return exists(pid) })
			defer holdStore(t, store)()
			if code := p.code(); code != 124 {
				t.Errorf("exit code %d, want 124", code)
			}
			expectGone(t, pid)
		})
	}
}

func TestRunDoesNotStopLongerThanItsLeaseLasts(t *testing.T) {
	t.Parallel()
	store, ready := t.TempDir(), filepath.Join(t.TempDir(), "ready")
	p := startRun(t, store, "trap '' TERM; touch "+ready+"; while :; do sleep 0.05; done", "--stop-timeout", "1h")
	eventually(t, "command", func() bool { return exists(ready) })
	defer holdStore(t, store)()
	p.send(syscall.SIGTERM)
	if code := p.code(); code != 128+9 {
		t.Errorf("exit code %d, want 137", code)
	}
}

func TestRunLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	p := startRun(t, t.TempDir(), "sleep 1000 & echo $! >"+pid)
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	expectGone(t, pid)
}

func TestCommandOfAKilledRunEnds(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	p := startRun(t, t.TempDir(), "echo $$ >"+pid+".tmp; mv "+pid+".tmp "+pid+"; exec sleep 1000")
	eventually(t, "command", func() bool { return exists(pid) })
	p.send(syscall.SIGKILL)
	expectGone(t, pid)
}

func TestSecondSignalKillsTheCommand(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	// The shell's child, because the kernel ends the shell itself with the process that started it.
	p := startRun(t, t.TempDir(), "trap '' TERM; sleep 1000 & echo $! >"+pid+".tmp; mv "+pid+".tmp "+pid+"; wait", "--stop-timeout", "1h")
	eventually(t, "command", func() bool { return exists(pid) })
	p.send(syscall.SIGTERM)
	p.logged("stopping", "signal", "terminated")
	p.send(syscall.SIGINT)
	if code := p.code(); code != 128+2 {
		t.Errorf("exit code %d, want 130", code)
	}
	expectGone(t, pid)
}

func TestRunAnswersHTTPIfAsked(t *testing.T) {
	t.Parallel()
	p := startRun(t, t.TempDir(), "sleep 1000", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	s := &sidecar{p, "http://" + p.logged("listening", "for", "listen")["address"].(string)}
	s.leads()
	admin := "http://" + p.logged("listening", "for", "admin-listen")["address"].(string)
	p.logged("command started", "msg", "command started")
	if code, body := get(t, http.MethodPost, admin+"/quit"); code != http.StatusAccepted {
		t.Errorf("/quit: %d %s", code, body)
	}
	if code := p.code(); code != 124 {
		t.Errorf("exit code %d, want 124", code)
	}
}

// expectGone waits until the process that a file names has ended; a zombie counts.
func expectGone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(text))
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(number, syscall.SIGKILL)
		}
	})
	eventually(t, "the end of process "+pid, func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		_, state, _ := strings.Cut(string(stat), ") ")
		return err != nil || strings.HasPrefix(state, "Z")
	})
}
