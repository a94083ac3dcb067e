package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// respond starts a server that gives one answer. Only /elsewhere leads in any case.
func respond(t *testing.T, code int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			_, _ = io.WriteString(w, `{"leader":true}`)
			return
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "PATH", r.URL.Path))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestCheckAsksOverHTTP(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	mute := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(func() { close(hang); mute.Close() })
	for name, c := range map[string]struct {
		url  string
		want int
	}{
		"leading":               {respond(t, 200, `{"leader":true}`), 0},
		"not leading":           {respond(t, 503, `{"leader":false}`), 1},
		"asks for /leader":      {respond(t, 200, `{"leader":true,"got":"PATH"}`) + "/", 0},
		"another server's 503":  {respond(t, 503, "upstream connect error"), 2},
		"another server's 200":  {respond(t, 200, "<html>"), 2},
		"another server's JSON": {respond(t, 200, `{}`), 2},
		"body and code differ":  {respond(t, 200, `{"leader":false}`), 2},
		"redirect":              {respond(t, 302, `{"leader":true}`), 2},
		"nobody there":          {"http://127.0.0.1:1", 2},
		"no answer":             {mute.URL, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t, nil, "check", "--url", c.url)
			if code != c.want {
				t.Errorf("exit code %d, want %d", code, c.want)
			}
			if said := stdout != ""; said != (c.want < 2) || (stderr != "") == said {
				t.Errorf("stdout %q, stderr %q", stdout, stderr)
			}
		})
	}
}

func TestCheckReadsFiles(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) string {
		return "17 " + strconv.FormatInt(time.Now().Add(d).UnixMilli(), 10) + "\n"
	}
	for name, c := range map[string]struct {
		status, leader string
		want           int
	}{
		"leading":       {"{}", at(time.Hour), 0},
		"not leading":   {"{}", "", 1},
		"run out":       {"{}", at(-time.Second), 1},
		"no sidecar":    {"", "", 2},
		"not its files": {"{}", "hello", 2},
	} {
		dir := t.TempDir()
		if c.status != "" {
			writeFile(t, filepath.Join(dir, "status.json"), c.status)
		}
		if c.leader != "" {
			writeFile(t, filepath.Join(dir, "leader"), c.leader)
		}
		for what, got := range map[string]func() (int, string, string){
			"flag":     func() (int, string, string) { return call(t, nil, "check", "--dir", dir) },
			"variable": func() (int, string, string) { return call(t, []string{"SIMBA_DIR=" + dir}, "check") },
			"no HTTP": func() (int, string, string) {
				return call(t, []string{"SIMBA_DIR=" + dir, "SIMBA_LISTEN=off"}, "check")
			},
			"flag before variable": func() (int, string, string) {
				return call(t, []string{"SIMBA_URL=http://127.0.0.1:1"}, "check", "--dir", dir)
			},
		} {
			if code, _, stderr := got(); code != c.want {
				t.Errorf("%s by %s: exit code %d, want %d: %s", name, what, code, c.want, stderr)
			}
		}
	}
}

func TestCheckFindsTheListener(t *testing.T) {
	t.Parallel()
	address := strings.TrimPrefix(respond(t, 200, `{"leader":true}`), "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, env := range [][]string{
		{"SIMBA_LISTEN=" + address},
		{"SIMBA_LISTEN=:" + port},
		{"SIMBA_LISTEN=0.0.0.0:" + port},
		{"SIMBA_LISTEN=:" + port, "SIMBA_DIR=" + t.TempDir()}, // HTTP comes first
		{"SIMBA_LISTEN=127.0.0.1:1", "SIMBA_URL=http://" + address},
	} {
		if code, _, stderr := call(t, env, "check"); code != 0 {
			t.Errorf("%q: exit code %d: %s", env, code, stderr)
		}
	}
	if got := loopback("[::]:4040"); got != "[::1]:4040" {
		t.Errorf("all IPv6 addresses: %s", got)
	}
}

func TestCheckOfRealSidecars(t *testing.T) {
	t.Parallel()
	store, d := t.TempDir(), dirs(t, "leader", "standby")
	leader := startSidecar(t, store, "--dir", d[0])
	leader.leads()
	standby := startSidecar(t, store, "--dir", d[1])
	standby.standsBy()
	checked := func(args ...string) int {
		return launch(t, program(t, nil, append([]string{"check"}, args...)...)).code()
	}
	eventually(t, "the leader's files", func() bool { return checked("--dir", d[0]) == 0 })
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--url", leader.url}, 0},
		{[]string{"--url", standby.url}, 1},
		{[]string{"--dir", d[1]}, 1},
	} {
		if code := checked(c.args...); code != c.want {
			t.Errorf("check %q: exit code %d, want %d", c.args, code, c.want)
		}
	}
	leader.send(syscall.SIGSTOP) // its files say by themselves when they are no longer true
	eventually(t, "the end of what the files say", func() bool { return checked("--dir", d[0]) == 1 })
}
