package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

const (
	defaultRoot = "/var/cache/simba-servers"
	// readyMarker is made last by the installation: without it the tree may be
	// half there.
	readyMarker = ".ready"
	// toolTimeout bounds helper programs: printing a version, filling a folder.
	toolTimeout = 2 * time.Minute
)

// errNotInstalled is the one error of locate that an installation cures.
var errNotInstalled = errors.New("not installed")

// program is a server's binary, ready to be run.
type program struct {
	argv    []string // the binary itself, and before it the loader it needs
	prefix  string   // of the tree that it was found in, "" for the host's
	version string   // what --version prints
}

// command is the argv that runs the program with these arguments.
func (p program) command(args ...string) []string {
	return append(slices.Clip(p.argv), args...)
}

// locate finds a server's binary on PATH or in the tree of newer servers. Only
// one whose version genuine accepts counts.
func locate(name string, genuine func(version string) bool) (program, error) {
	var candidates []program
	if path, err := lookPath(name); err == nil {
		candidates = append(candidates, program{argv: []string{path}})
	}
	if p, ok := inTree(name); ok {
		candidates = append(candidates, p)
	}
	for _, p := range candidates {
		out, err := run(p.command("--version"))
		if err != nil {
			return program{}, err
		}
		if p.version = string(out); genuine(p.version) {
			return p, nil
		}
	}
	return program{}, fmt.Errorf("%s: %w", name, errNotInstalled)
}

// lookPath looks on PATH, and then where Debian has servers and only root's PATH
// leads.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// inTree finds a binary in the tree of newer servers. It is run by that tree's
// own loader with that tree's libraries: unlike chroot, that takes no root, and
// the server sees the same folders as the test.
func inTree(name string) (program, bool) {
	root := os.Getenv("SIMBA_TEST_ROOT")
	if root == "" {
		root = defaultRoot
	}
	if _, err := os.Stat(filepath.Join(root, readyMarker)); err != nil {
		return program{}, false
	}
	loaders, err := filepath.Glob(filepath.Join(root, "usr/lib/*/ld-linux*.so.*"))
	if err != nil || len(loaders) == 0 {
		return program{}, false
	}
	for _, dir := range []string{"usr/sbin", "usr/bin"} {
		path := filepath.Join(root, dir, name)
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			continue
		}
		return program{
			argv:   []string{loaders[0], "--library-path", filepath.Dir(loaders[0]), path},
			prefix: filepath.Join(root, "usr"),
		}, true
	}
	return program{}, false
}

// missing ends a test that has no server. In CI that is a failure: a suite that
// silently tests nothing is worse than none.
func missing(t testing.TB, name string, err error) {
	t.Helper()
	report := t.Fatalf
	if errors.Is(err, errNotInstalled) && os.Getenv("CI") != "true" {
		report = t.Skipf
	}
	report("no %s to test with: %v; in the repository's root run: sudo internal/testserver/install.sh", name, err)
}

// run runs a helper program to its end and returns what it printed.
func run(argv []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", argv[0], err, out)
	}
	return out, nil
}
