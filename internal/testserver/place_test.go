package testserver

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlacesAreExclusiveAndSweptOnceUnlocked(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	held, err := claim(base, 21001)
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	again, err := claim(base, 21001)
	if again != nil || err != nil {
		t.Fatalf("claimed what is held: %v, %v", again, err)
	}
	for _, dir := range []string{"21001", "21002", "template-x"} { // held, garbage, not a place
		if err := os.MkdirAll(filepath.Join(base, dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweep(base); err != nil {
		t.Fatal(err)
	}
	wantFolders(t, base, "21001", "template-x")
	if err := held.free(); err != nil {
		t.Fatal(err)
	}
	wantFolders(t, base, "template-x")
	if after, err := claim(base, 21001); after == nil || err != nil {
		t.Errorf("a freed place is not to be had: %v, %v", after, err)
	} else if err := after.free(); err != nil {
		t.Error(err)
	}
}

func TestReserveAvoidsPortsInUse(t *testing.T) {
	t.Parallel()
	p, err := reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.free(); err != nil {
			t.Error(err)
		}
	}()
	if !p.portIsFree() {
		t.Errorf("port %d is not free", p.port)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(p.port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if p.portIsFree() {
		t.Errorf("port %d is in use and passes for free", p.port)
	}
}

func TestTemplateIsBuiltOnceAndOnlyWhole(t *testing.T) {
	t.Parallel()
	key := "test-" + filepath.Base(filepath.Dir(t.TempDir())) // of this run alone
	base, err := baseDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, suffix := range []string{"", ".new", ".lock"} {
			if err := os.RemoveAll(templateDir(base, key) + suffix); err != nil {
				t.Error(err)
			}
		}
	})

	halfway := errors.New("halfway")
	if _, err := template(key, func(dir string) error {
		return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "half"), nil, 0o600), halfway)
	}); !errors.Is(err, halfway) {
		t.Fatalf("error %v, want that of the build", err)
	}

	var builds atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			dir, err := template(key, func(dir string) error {
				builds.Add(1)
				return errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(dir, "whole"), 0o700))
			})
			if err != nil {
				t.Error(err)
				return
			}
			wantFolders(t, dir, "whole")
		})
	}
	all.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("built %d times", n)
	}
}

func TestLogTailBeginsWithAWholeLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	var text []byte
	for i := range 1000 {
		text = append(text, "line "+strconv.Itoa(i)+"\n"...)
	}
	for _, c := range []struct {
		name, text string
	}{{"long", string(text)}, {"short", "line 0\n"}, {"empty", ""}} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := tailOf(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > tailSize || got != "" && got[:5] != "line " || c.text[len(c.text)-len(got):] != got || (c.text == "") != (got == "") {
			t.Errorf("%s log: tail is %q", c.name, got)
		}
	}
}

// wantFolders expects these folders in dir, and no others.
func wantFolders(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
		return
	}
	var got []string
	for _, entry := range entries {
		if entry.IsDir() {
			got = append(got, entry.Name())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("folders in %s (-want +got):\n%s", dir, diff)
	}
}
