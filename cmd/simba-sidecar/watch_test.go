package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// get returns the status and the body of one request.
func get(t *testing.T, method, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// events reads the stream of a sidecar's states until the sidecar ends it.
func events(t *testing.T, s *sidecar) (done func() []string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r) //nolint:bodyclose // closed by whoever reads it to its end
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan []string, 1)
	go func() {
		defer func() { _ = response.Body.Close() }()
		var states []string
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				states = append(states, data)
			}
		}
		all <- states
	}()
	return func() []string { return <-all }
}

// changes tells, in order, of the leader files that come and go in directories.
func changes(t *testing.T, dirs ...string) (next func() string) {
	t.Helper()
	w, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	for _, dir := range dirs {
		if err := w.Add(dir); err != nil {
			t.Fatal(err)
		}
	}
	return func() string {
		t.Helper()
		limit := time.After(patience)
		for {
			select {
			case e := <-w.Events:
				name := filepath.Base(filepath.Dir(e.Name))
				switch {
				case filepath.Base(e.Name) != "leader":
				case e.Has(fsnotify.Create):
					return "create " + name
				case e.Has(fsnotify.Remove):
					return "remove " + name
				}
			case err := <-w.Errors:
				t.Fatal(err)
			case <-limit:
				t.Fatalf("no change of a leader file within %v", patience)
			}
		}
	}
}

// dirs makes directories for sidecars.
func dirs(t *testing.T, names ...string) (paths []string) {
	t.Helper()
	base := t.TempDir()
	for _, name := range names {
		path := filepath.Join(base, name)
		if err := os.Mkdir(path, 0o750); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// holdStore keeps everybody from changing the mutexes in a local store. Reading goes on.
func holdStore(t *testing.T, store string) (free func()) {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(store, "*.lock"))
	if err != nil || len(locks) == 0 {
		t.Fatalf("lock files: %q, %v", locks, err)
	}
	var files []*os.File
	for _, path := range locks {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		eventually(t, "lock of "+path, func() bool {
			return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
		})
	}
	return func() {
		for _, f := range files {
			_ = f.Close()
		}
	}
}
