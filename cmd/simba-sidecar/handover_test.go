package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// leaderFile waits until a sidecar's directory says that it leads, and returns the file's path.
func leaderFile(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "leader")
	eventually(t, "a leader file", func() bool { return exists(path) })
	return path
}

// TestTheRowIsFreeOnlyOnceNothingSaysLeader keeps the old leader from removing its file, and so from giving
// up the row.
func TestTheRowIsFreeOnlyOnceNothingSaysLeader(t *testing.T) {
	stores(t, func(t *testing.T, st site) {
		dir := dirs(t, "old")[0]
		long := []string{"--ttl", "30s", "--transition", "3s", "--stop-timeout", "25s"} // no renewal, and no end of patience
		old := startSidecar(t, st.url, append(long, "--dir", dir)...)
		before := old.leads()
		file := leaderFile(t, dir)
		successor := startSidecar(t, st.url, long...)
		successor.standsBy()
		newWitness(t).follow(t, old, successor)
		told := events(t, old)

		// A directory with something in it cannot be removed as a file can.
		if err := errors.Join(os.Remove(file), os.MkdirAll(filepath.Join(file, "obstacle"), 0o700)); err != nil {
			t.Fatal(err)
		}
		old.send(syscall.SIGTERM)
		eventually(t, "503 from a leader that is stopping", func() bool {
			a := old.ask()
			return a.code == http.StatusServiceUnavailable && a.State == "stepping-down"
		})
		for begin := time.Now(); time.Since(begin) < 500*time.Millisecond; {
			if got := st.row(t); got != (row{before.Identity, before.Token}) {
				t.Fatalf("the row is %q's %v after the old leader began to stop, and its file is still there", got.owner, time.Since(begin))
			}
			if a := successor.ask(); a.code == http.StatusOK || a.Holder != before.Identity {
				t.Fatalf("the successor does not wait for %s: %+v", before.Identity, a)
			}
		}
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}

		if after := successor.leads(); after.Token <= before.Token {
			t.Errorf("token %d after %d", after.Token, before.Token)
		}
		if code := old.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "status.json")); !strings.Contains(string(text), `"leader":false`) {
			t.Errorf("the old leader left behind: %s %v", text, err)
		}
		states := told()
		if n := len(states); n < 2 || !strings.Contains(states[0], `"leader":true`) || !strings.Contains(states[1], `"state":"stepping-down"`) {
			t.Errorf("the old leader's clients were told:\n%s", strings.Join(states, "\n"))
		}
	})
}

// TestHandsOverInOrder watches a hand-over that nothing holds up: the row, both files and both answers.
func TestHandsOverInOrder(t *testing.T) {
	stores(t, func(t *testing.T, st site) {
		d := dirs(t, "old", "new")
		next := changes(t, d...)
		old := startSidecar(t, st.url, "--dir", d[0])
		before := old.leads()
		file := leaderFile(t, d[0])
		successor := startSidecar(t, st.url, "--dir", d[1])
		successor.standsBy()
		newWitness(t).follow(t, old, successor)

		old.send(syscall.SIGTERM)
		owners := []string{before.Identity}
		eventually(t, "the successor's name in the row", func() bool {
			now := st.row(t)
			if now.owner != before.Identity { // what is looked at now is later
				if exists(file) {
					t.Errorf("the row is %q's, and the old leader's file says that it leads", now.owner)
				}
				if a := old.ask(); a.code == http.StatusOK {
					t.Errorf("the row is %q's, and the old leader answers 200", now.owner)
				}
			}
			if owners[len(owners)-1] != now.owner {
				owners = append(owners, now.owner)
			}
			return now.owner != before.Identity && now.owner != ""
		})
		after := successor.leads()
		if after.Token <= before.Token {
			t.Errorf("token %d after %d", after.Token, before.Token)
		}
		owners = slices.DeleteFunc(owners, func(owner string) bool { return owner == "" }) // for too short a time to be seen for certain
		if diff := cmp.Diff([]string{before.Identity, after.Identity}, owners); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
		if code := old.code(); code != 0 {
			t.Errorf("exit code %d", code)
		}

		var files []string
		for len(files) == 0 || files[len(files)-1] != "create new" {
			files = append(files, next())
		}
		files = slices.Compact(files) // renewals
		if diff := cmp.Diff([]string{"create old", "remove old", "create new"}, files); diff != "" {
			t.Errorf("leader files (-want +got):\n%s", diff)
		}
	})
}
