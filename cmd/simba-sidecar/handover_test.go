package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// leaderFile waits until a sidecar's directory says that it leads, and returns the file's path.
func leaderFile(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "leader")
	eventually(t, "a leader file", func() bool { return exists(path) })
	return path
}

// TestTheRowIsFreeOnlyOnceNothingSaysLeader keeps the row from being changed, so that all that comes before
// the release has to happen without it.
func TestTheRowIsFreeOnlyOnceNothingSaysLeader(t *testing.T) {
	stores(t, func(t *testing.T, st site) {
		dir := dirs(t, "old")[0]
		long := []string{"--ttl", "30s", "--transition", "3s"} // nobody needs to change the row for a while
		old := startSidecar(t, st.url, append(long, "--dir", dir)...)
		before := old.leads()
		file := leaderFile(t, dir)
		successor := startSidecar(t, st.url, long...)
		successor.standsBy()
		newWitness(t).follow(t, old, successor)
		told := events(t, old)

		free := st.hold(t)
		old.send(syscall.SIGTERM)
		eventually(t, "503 from a leader that is stopping", func() bool {
			a := old.ask()
			return a.code == http.StatusServiceUnavailable && a.State == "stepping-down"
		})
		eventually(t, "no leader file", func() bool { return !exists(file) })
		eventually(t, "status.json without a leader", func() bool {
			text, err := os.ReadFile(filepath.Join(dir, "status.json"))
			return err == nil && strings.Contains(string(text), `"leader":false`)
		})
		if got := st.row(t); got != (row{before.Identity, before.Token}) {
			t.Errorf("the row is no longer the old leader's: %+v", got)
		}
		if a := successor.ask(); a.code == http.StatusOK || a.Holder != before.Identity {
			t.Errorf("the successor does not wait for %s: %+v", before.Identity, a)
		}
		free()

		if after := successor.leads(); after.Token <= before.Token {
			t.Errorf("token %d after %d", after.Token, before.Token)
		}
		if code := old.code(); code != 0 {
			t.Errorf("exit code %d", code)
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
