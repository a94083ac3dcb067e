package localfs_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/simba-sidecar/simba-sidecar/internal/localfs"
)

func TestAcceptsTheTemporaryDirectory(t *testing.T) {
	t.Parallel()
	if err := localfs.CheckLocal(t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestNamesTheDirectoryThatDoesNotExist(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "absent")
	if err := localfs.CheckLocal(dir); err == nil || !strings.Contains(err.Error(), dir) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want an error that names %s and says that it does not exist", err, dir)
	}
}

func TestBootIDStaysTheSame(t *testing.T) {
	t.Parallel()
	one, err := localfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	two, err := localfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	if one == "" || one != two || strings.TrimSpace(one) != one {
		t.Errorf("got %q, then %q", one, two)
	}
}
