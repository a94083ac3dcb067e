package local

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/backends/backendtest"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	h := harness(t)
	h.LoseData = func(t testing.TB) (backendtest.Harness, func(testing.TB)) {
		own := harness(t)
		return own.Harness, func(t testing.TB) {
			t.Helper()
			files, err := filepath.Glob(filepath.Join(own.dir, "*"))
			if err != nil || len(files) == 0 {
				t.Fatalf("found %v to delete (%v)", files, err)
			}
			remove(t, files...)
		}
	}
	backendtest.Run(t, h.Harness)
}

type directory struct {
	backendtest.Harness
	dir string
}

func harness(t testing.TB) directory {
	t.Helper()
	dir := t.TempDir()
	return directory{dir: dir, Harness: backendtest.Harness{
		Open: func(_ string, c election.Contender) (election.Backend, error) {
			b, err := Open(dir, c, nil)
			if err != nil {
				return nil, err
			}
			return b, nil
		},
		Now: func(context.Context) (time.Time, error) {
			now, err := boottime()
			return time.Unix(0, int64(now)), err
		},
		DeleteMutex: func(t testing.TB, mutex string) {
			t.Helper()
			remove(t, filepath.Join(dir, fileName(mutex)+".json"), filepath.Join(dir, fileName(mutex)+".lock"))
		},
		Lapses: true,
	}}
}

func remove(t testing.TB, files ...string) {
	t.Helper()
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}
