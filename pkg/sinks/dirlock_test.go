package sinks_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
	"github.com/simba-sidecar/simba-sidecar/pkg/sinks"
)

// leadIn names the directory in which a test process, instead of testing, leads with token 7 until it is
// killed.
const leadIn = "SINKS_LEAD_IN"

// child starts a process that leads in dir: the calling test, which asks for leadIn.
func child(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), leadIn+"="+dir)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "leading" {
			return cmd
		}
	}
	t.Fatalf("the child ended: %v", cmd.Wait())
	return nil
}

// Not parallel: between fork and exec the child has the locks of the other tests too.
func TestTheDirectoryHasOneSidecar(t *testing.T) {
	if dir := os.Getenv(leadIn); dir != "" {
		apply(t, newFiles(t, dir), leader(t, 7))
		fmt.Println("leading")
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		return
	}
	dir := t.TempDir()
	cmd := child(t, dir)
	_, err := sinks.LockDir(dir)
	if want := fmt.Sprintf("the sidecar with pid %d uses %s: give every sidecar a directory of its own", cmd.Process.Pid, dir); err == nil || err.Error() != want {
		t.Errorf("LockDir: %v; want %s", err, want)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	want := sinks.Term{Mutex: "orders", Store: store, Identity: contender.Identity, Token: 7}
	if got, ok := lock(t, dir).Predecessor(); !ok || got != want {
		t.Errorf("predecessor: %+v, %v; want %+v", got, ok, want)
	}
}

// reopen closes l as the kernel does for a killed process, and takes the directory again.
func reopen(t *testing.T, dir string, l *sinks.DirLock) *sinks.DirLock {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return lock(t, dir)
}

func TestThePredecessorsTermIsThereUntilItIsOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lock(t, dir)
	if got, ok := l.Predecessor(); ok {
		t.Fatalf("a new directory has a predecessor: %+v", got)
	}
	s := leader(t, 7)
	apply(t, sinks.NewFiles(l, store, "mysql"), s)

	// Killed again and again before it could continue the term.
	for range 3 {
		l = reopen(t, dir, l)
		if got, ok := l.Predecessor(); !ok || got.Token != 7 {
			t.Fatalf("predecessor: %+v, %v; want token 7", got, ok)
		}
		apply(t, sinks.NewFiles(l, store, "mysql"), election.State{Status: election.Unknown, Resuming: true})
	}

	apply(t, sinks.NewFiles(l, store, "mysql"), after(s, election.SteppingDown))
	if got, ok := reopen(t, dir, l).Predecessor(); ok {
		t.Errorf("a term that was given up is offered again: %+v", got)
	}
}

func TestTheRecordPrecedesTheLeaderFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lock(t, dir)
	block := filepath.Join(dir, ".leader.tmp", "in the way")
	if err := os.MkdirAll(block, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := sinks.NewFiles(l, store, "mysql").Apply(t.Context(), leader(t, 7)); err == nil {
		t.Fatal("no error although leader cannot be written")
	}
	if got, ok := reopen(t, dir, l).Predecessor(); !ok || got.Token != 7 {
		t.Errorf("predecessor: %+v, %v; want token 7, recorded before leader is written", got, ok)
	}
}

func TestOnlyThisBootsTermsAreContinued(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := lock(t, dir)
	apply(t, sinks.NewFiles(l, store, "mysql"), leader(t, 7))
	path := filepath.Join(dir, "sidecar.lock")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	if err := json.Unmarshal(text, &record); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	record["boot"] = "00000000-0000-0000-0000-000000000000"
	changed, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, ok := reopen(t, dir, l).Predecessor(); ok {
		t.Errorf("a term of an earlier boot is offered: %+v", got)
	}
}

func TestWhatALongerRecordLeftIsIgnored(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":            "",
		"half a record":      `{"pid":1,"boot":"0`,
		"an older long tail": `{"pid":1,"boot":"x"}` + "\n" + `token":9}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "sidecar.lock"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			l := lock(t, dir)
			if got, ok := l.Predecessor(); ok {
				t.Errorf("predecessor: %+v", got)
			}
			apply(t, sinks.NewFiles(l, store, "mysql"), leader(t, 7))
			if got, ok := reopen(t, dir, l).Predecessor(); !ok || got.Token != 7 {
				t.Errorf("predecessor: %+v, %v; want token 7", got, ok)
			}
		})
	}
}

func TestALockOnADeletedFileIsNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock(t, dir)
	if err := os.Remove(filepath.Join(dir, "sidecar.lock")); err != nil {
		t.Fatal(err)
	}
	lock(t, dir)
	if _, err := sinks.LockDir(dir); err == nil {
		t.Error("the new file is not locked")
	}
}

func TestAMissingDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "missing")
	if _, err := sinks.LockDir(dir); err == nil || !strings.Contains(err.Error(), dir+" does not exist: create it") {
		t.Errorf("LockDir: %v", err)
	}
}
