package sinks_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/simba-sidecar/simba-sidecar/internal/statusjson"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
	"github.com/simba-sidecar/simba-sidecar/pkg/sinks"
)

const store = "mysql://db:3306/shop"

// lock takes dir for the rest of the test.
func lock(t *testing.T, dir string) *sinks.DirLock {
	t.Helper()
	l, err := sinks.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func newFiles(t *testing.T, dir string) *sinks.Files {
	t.Helper()
	return sinks.NewFiles(lock(t, dir), store, "mysql")
}

func apply(t *testing.T, f *sinks.Files, s election.State) {
	t.Helper()
	if err := f.Apply(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func readStatus(t *testing.T, dir string) statusjson.Body {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "status.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b statusjson.Body
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatalf("status.json holds %q: %v", text, err)
	}
	return b
}

// leaderText returns what the file leader holds; "" if there is none.
func leaderText(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "leader"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func TestFilesSayWhoLeads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFiles(t, dir)
		apply(t, f, standby())
		if b := readStatus(t, dir); b.Leader || b.State != election.Standby || b.Holder != "web-1_00000000" || b.Name != "web-1" || b.ExpiresAt != "" {
			t.Errorf("standing by: %+v", b)
		}
		if text := leaderText(t, dir); text != "" {
			t.Errorf("standing by, leader holds %q", text)
		}

		s := leader(t, 7)
		apply(t, f, s)
		b := readStatus(t, dir)
		if !b.Leader || b.State != election.Leader || b.Token != 7 || b.Backend != "mysql" {
			t.Errorf("leading: %+v", b)
		}
		expectLeader(t, dir, 7, s.ExpiresAt())
		if inBody, err := time.Parse(time.RFC3339, b.ExpiresAt); err != nil || inBody.Sub(s.ExpiresAt()).Abs() > time.Second {
			t.Errorf("expiresAt is %s (%v), want about %v", b.ExpiresAt, err, s.ExpiresAt())
		}

		time.Sleep(3 * time.Second)
		renewed := leader(t, 7)
		apply(t, f, renewed)
		expectLeader(t, dir, 7, renewed.ExpiresAt())

		apply(t, f, after(renewed, election.SteppingDown))
		if text, b := leaderText(t, dir), readStatus(t, dir); text != "" || b.Leader || b.State != election.SteppingDown || b.Token != 0 {
			t.Errorf("stepping down: leader holds %q, status %+v", text, b)
		}
		expectOnly(t, dir, "sidecar.lock", "status.json")
	})
}

// expectLeader checks the file leader: its text, its modification time and its mode.
func expectLeader(t *testing.T, dir string, token uint64, expires time.Time) {
	t.Helper()
	text := leaderText(t, dir)
	gotToken, ms, _ := strings.Cut(strings.TrimSpace(text), " ")
	at, err := strconv.ParseInt(ms, 10, 64)
	if gotToken != strconv.FormatUint(token, 10) || err != nil || time.UnixMilli(at).Sub(expires).Abs() > time.Second {
		t.Errorf("leader holds %q, want %d and about %d", text, token, expires.UnixMilli())
	}
	info, err := os.Stat(filepath.Join(dir, "leader"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o644 || info.ModTime().UnixMilli() != at {
		t.Errorf("leader has mode %v and time %v, want -rw-r--r-- and %v", info.Mode(), info.ModTime(), time.UnixMilli(at))
	}
}

func expectOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files in the directory (-want +got):\n%s", diff)
	}
}

func TestModeDoesNotDependOnUmask(t *testing.T) { // not parallel: the umask is the process's
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := t.TempDir()
	apply(t, newFiles(t, dir), leader(t, 7))
	for _, name := range []string{"status.json", "leader"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o644 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

func TestFilesRefuseALeadershipThatHasRunOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFiles(t, dir)
		apply(t, f, standby())
		s := leader(t, 7)
		time.Sleep(contender.Lease())
		if err := f.Apply(t.Context(), s); err == nil {
			t.Error("a State that has run out was applied")
		}
		if b := readStatus(t, dir); b.Leader || leaderText(t, dir) != "" {
			t.Errorf("leader holds %q, status %+v", leaderText(t, dir), b)
		}
		expectOnly(t, dir, "sidecar.lock", "status.json")
	})
}

// While leader exists, status.json says the same: a reader that sees both in either order is never told
// to lead by one of them after the other has ended it.
func TestLeaderFileIsWithinStatus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newFiles(t, dir)
	// A directory in the place of a file makes the step that would replace it fail.
	block := func(name string) {
		if err := os.MkdirAll(filepath.Join(dir, name, "in the way"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	block("status.json")
	if err := f.Apply(t.Context(), leader(t, 7)); err == nil || leaderText(t, dir) != "" {
		t.Errorf("err = %v; leader was written although status.json cannot be", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "status.json")); err != nil {
		t.Fatal(err)
	}
	s := leader(t, 7)
	apply(t, f, s)
	block(".status.json.tmp")
	if err := f.Apply(t.Context(), after(s, election.SteppingDown)); err == nil {
		t.Error("no error although status.json cannot be rewritten")
	}
	if text := leaderText(t, dir); text != "" {
		t.Errorf("leader holds %q", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "status.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a status.json that cannot be rewritten must go: %v", err)
	}
}

func TestResumingLeavesThePredecessorsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := sinks.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, sinks.NewFiles(first, store, "mysql"), leader(t, 7))
	if err := first.Close(); err != nil { // as the kernel does for a process that was killed
		t.Fatal(err)
	}
	before := leaderText(t, dir)

	second := lock(t, dir)
	want := sinks.Term{Mutex: "orders", Store: store, Identity: contender.Identity, Token: 7}
	if got, ok := second.Predecessor(); !ok || got != want {
		t.Fatalf("predecessor: %+v, %v; want %+v", got, ok, want)
	}
	f := sinks.NewFiles(second, store, "mysql")
	apply(t, f, election.State{Mutex: "orders", Identity: contender.Identity, Status: election.Unknown, Resuming: true})
	if text := leaderText(t, dir); text != before {
		t.Errorf("while resuming leader holds %q, want %q", text, before)
	}
	apply(t, f, election.State{Mutex: "orders", Identity: contender.Identity, Status: election.Unknown})
	if text := leaderText(t, dir); text != "" {
		t.Errorf("leader holds %q after resuming has failed", text)
	}
}

func TestAnotherTermEndsThePredecessorsFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := sinks.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, sinks.NewFiles(first, store, "mysql"), leader(t, 7))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	// The new term's status.json cannot be written, so what is seen here is the moment before it.
	if err := os.MkdirAll(filepath.Join(dir, ".status.json.tmp", "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	f := newFiles(t, dir)
	if err := f.Apply(t.Context(), leader(t, 9)); err == nil {
		t.Error("no error although status.json cannot be written")
	}
	if text := leaderText(t, dir); text != "" {
		t.Errorf("leader still holds %q when the next term begins", text)
	}
}

func TestFilesDoNotFollowLinksOfTheApplication(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"status.json", ".status.json.tmp"} {
		if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, newFiles(t, dir), standby())
	if text, err := os.ReadFile(outside); err != nil || string(text) != "untouched" {
		t.Errorf("the file outside holds %q (%v)", text, err)
	}
	if b := readStatus(t, dir); b.State != election.Standby {
		t.Errorf("status: %+v", b)
	}
}

func TestReadersNeverSeeHalfAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newFiles(t, dir)
	apply(t, f, standby())
	stop, done := context.WithCancel(t.Context())
	defer done()
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for s := standby(); stop.Err() == nil; s.Revision++ {
			s.Reason = strings.Repeat("x", int(s.Revision%4000))
			if err := f.Apply(stop, s); err != nil {
				failed <- err
				return
			}
		}
	}()
	for range 2000 {
		readStatus(t, dir)
	}
	done()
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

func TestCheckDirComparesTheTime(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	tests := map[string]struct {
		files   map[string]string
		leading bool
		err     string
	}{
		"leading":          {files: map[string]string{"leader": "7 1700000000001\n", "status.json": "{}"}, leading: true},
		"run out":          {files: map[string]string{"leader": "7 1700000000000\n", "status.json": "{}"}},
		"not leading":      {files: map[string]string{"status.json": "{}"}},
		"no sidecar":       {err: "no sidecar has written to"},
		"empty":            {files: map[string]string{"leader": ""}, err: "only the sidecar may write it"},
		"no time":          {files: map[string]string{"leader": "7\n"}, err: "only the sidecar may write it"},
		"no token":         {files: map[string]string{"leader": " 1700000000001\n"}, err: "only the sidecar may write it"},
		"something else":   {files: map[string]string{"leader": "7 1700000000001 9\n"}, err: "only the sidecar may write it"},
		"time is no digit": {files: map[string]string{"leader": "7 soon\n"}, err: "only the sidecar may write it"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range test.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			leading, err := sinks.CheckDir(dir, now)
			if leading != test.leading || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("CheckDir: %v, %v; want %v, %q", leading, err, test.leading, test.err)
			}
		})
	}
	if _, err := sinks.CheckDir(filepath.Join(t.TempDir(), "missing"), now); err == nil {
		t.Error("no error for a directory that does not exist")
	}
}
