package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// patience bounds every wait of a test. It is long because machines are slow at times; no test needs it.
const patience = 30 * time.Second

// binaryVariable tells tests where TestMain has built the program.
const binaryVariable = "SIMBA_TEST_BINARY"

func TestMain(m *testing.M) {
	os.Exit(buildAndTest(m))
}

func buildAndTest(m *testing.M) int {
	dir, err := os.MkdirTemp("", "simba-sidecar")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "simba-sidecar")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := errors.Join(build.Run(), os.Setenv(binaryVariable, binary)); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		return 1
	}
	code := m.Run()
	for _, d := range databases {
		d.shared.Close()
	}
	return code
}

// program returns the built program with arguments and an environment of its own, to be launched.
func program(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // cleanups end it, after others have asked it
	cmd := exec.CommandContext(ctx, os.Getenv(binaryVariable), args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	return cmd
}

// proc is a process that runs, with what it has logged so far.
type proc struct {
	*exec.Cmd
	t      *testing.T
	stdout strings.Builder // complete once it has ended

	mu    sync.Mutex
	lines []string
	ended chan struct{}
}

// launch starts cmd, which is killed at the end of the test if it still runs.
func launch(t *testing.T, cmd *exec.Cmd) *proc {
	t.Helper()
	p := &proc{Cmd: cmd, t: t, ended: make(chan struct{})}
	cmd.Stdout = &p.stdout
	cmd.WaitDelay = time.Second // a process that it leaves behind would keep its output open
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = w
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(r); s.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			p.mu.Unlock()
		}
		_ = r.Close()
	}()
	go func() {
		_ = cmd.Wait() // ProcessState says all
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.send(syscall.SIGKILL)
		p.send(syscall.SIGCONT)
		<-p.ended
		if t.Failed() {
			t.Logf("log of process %d:\n%s", cmd.Process.Pid, p.log())
		}
	})
	return p
}

func (p *proc) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// send sends a signal, which an ended process does not mind.
func (p *proc) send(s syscall.Signal) { _ = p.Process.Signal(s) }

// code waits for the process to end and returns its exit code, or -1 if a signal ended it.
func (p *proc) code() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("process %d does not end", p.Process.Pid)
		return 0
	}
}

// logged waits for a log line with that message and that field and returns its fields.
func (p *proc) logged(message, key string, value any) map[string]any {
	p.t.Helper()
	var found map[string]any
	eventually(p.t, fmt.Sprintf("log line %q with %s=%v", message, key, value), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, line := range p.lines {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == message && fields[key] == value {
				found = fields
				return true
			}
		}
		return false
	})
	return found
}

// eventually polls until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	limit := time.After(patience)
	for !cond() {
		select {
		case <-ticker.C:
		case <-limit:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// sidecar is a running sidecar.
type sidecar struct {
	*proc
	url string
}

const (
	ttl        = 2 * time.Second
	transition = time.Second
)

// contend returns the flags that all contenders of a test share. store is a directory or a URL.
func contend(store string) []string {
	if filepath.IsAbs(store) {
		store = "local:" + store
	}
	return []string{"--mutex", "orders", "--backend", store, "--ttl", ttl.String(), "--transition", transition.String()}
}

// startSidecar starts a sidecar on a free port and waits until it listens.
func startSidecar(t *testing.T, store string, args ...string) *sidecar {
	t.Helper()
	args = append(append(contend(store), "--listen", "127.0.0.1:0", "--admin-listen", "off"), args...)
	s := &sidecar{proc: launch(t, program(t, nil, args...))}
	s.url = "http://" + s.logged("listening", "for", "listen")["address"].(string)
	return s
}

// answer is what /leader says.
type answer struct {
	code           int
	Leader         bool
	State          string
	Identity, Name string
	Holder         string
	Token          uint64
	Since          time.Time
	ExpiresAt      time.Time
}

// ask asks a sidecar; code 0 means that it did not answer.
func (s *sidecar) ask() answer {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	ctx := context.WithoutCancel(s.t.Context()) // cleanups ask too
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/leader", nil)
	if err != nil {
		s.t.Error(err)
		return answer{}
	}
	response, err := client.Do(r)
	if err != nil {
		return answer{}
	}
	defer func() { _ = response.Body.Close() }()
	var a answer
	if text, err := io.ReadAll(response.Body); err != nil || json.Unmarshal(text, &a) != nil {
		return answer{}
	}
	a.code = response.StatusCode
	return a
}

// leads waits until the sidecar leads and returns what it says.
func (s *sidecar) leads() (a answer) {
	s.t.Helper()
	eventually(s.t, "200 from "+s.url, func() bool {
		a = s.ask()
		return a.code == http.StatusOK
	})
	return a
}

// standsBy waits until the sidecar knows that another leads.
func (s *sidecar) standsBy() {
	s.t.Helper()
	eventually(s.t, "standby at "+s.url, func() bool { return s.ask().State == "standby" })
}

// golden compares got with a file in testdata. With SIMBA_TEST_UPDATE set it writes the file instead.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("SIMBA_TEST_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; SIMBA_TEST_UPDATE=1 accepts):\n%s", path, diff)
	}
}

// call runs the program inside the test, for what starts nothing.
func call(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), args, env, &out, &errs)
	return code, out.String(), errs.String()
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
