package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/testserver"
)

// The sidecar's defaults, which are also those of the JVM library.
const (
	ttl        = 10 * time.Second
	transition = 6 * time.Second
)

// store is a store that sidecars run on.
type store struct {
	options *sidecarOptions
	db      *sql.DB // nil for one without SQL
	column  *column
}

func (s *store) kind() *kind {
	return &kind{start: func(ctx context.Context, mutex, name string, lead func(time.Time)) (contender, error) {
		return s.options.start(ctx, mutex, name, lead)
	}}
}

// lead starts a sidecar that is alone and returns it once it leads.
func (s *store) lead(ctx context.Context, mutex string) (*sidecar, error) {
	c, err := s.options.start(ctx, mutex, "alone", func(time.Time) {})
	if err != nil {
		return nil, err
	}
	if err := c.until(ctx, "leads", func() bool { return !c.led.IsZero() }); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// build builds the sidecar as `make build` does, with the dependencies of its own module, unless there is one.
func (b *bench) build(ctx context.Context) error {
	if b.binary != "" {
		return b.weigh()
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/simba-sidecar/simba-sidecar").Output()
	if err != nil {
		return fmt.Errorf("find the sidecar's module (run this in its folder bench): %w", err)
	}
	b.binary = filepath.Join(b.dir, "simba-sidecar")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", b.binary, "./cmd/simba-sidecar")
	cmd.Dir, cmd.Stdout, cmd.Stderr = strings.TrimSpace(string(root)), os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the sidecar: %w", err)
	}
	return b.weigh()
}

func (b *bench) weigh() error {
	info, err := os.Stat(b.binary)
	if err != nil {
		return err
	}
	b.size = info.Size()
	return nil
}

// openStores opens the stores that this machine has.
func (b *bench) openStores(ctx context.Context, names []string) ([]*store, error) {
	var stores []*store
	for _, name := range names {
		s := &store{options: &sidecarOptions{binary: b.binary, ttl: ttl, transition: transition}}
		title := "local directory"
		var err error
		switch name {
		case "local":
			s.options.backend = "local:" + filepath.Join(b.dir, "store")
		case "mariadb":
			title, err = b.openSQL(ctx, s, testserver.MariaDB)
		case "mysql":
			title, err = b.openSQL(ctx, s, testserver.MySQL)
		default:
			return nil, fmt.Errorf("there is no store %q: -stores takes local, mariadb and mysql", name)
		}
		if err != nil {
			b.table.remark("%s is left out: %v", name, err)
			continue
		}
		s.column = b.table.column("sidecar, " + title)
		stores = append(stores, s)
	}
	return stores, nil
}

// openSQL starts a server with a database for s and returns what it calls itself.
func (b *bench) openSQL(ctx context.Context, s *store, start func(testing.TB, *testserver.SQLOptions) *testserver.SQLServer) (title string, err error) {
	err = b.rig.do(func(t testing.TB) {
		server := start(t, &testserver.SQLOptions{MaxConnections: 500})
		database := server.Database(t)
		s.options.backend = server.URL(database)
		s.db = server.DB(t, database)
	})
	if err != nil {
		return "", err
	}
	var version string
	if err := s.db.QueryRowContext(ctx, "select version()").Scan(&version); err != nil {
		return "", err
	}
	number, _, _ := strings.Cut(version, "-")
	if strings.Contains(version, "MariaDB") {
		return "MariaDB " + number, nil
	}
	return "MySQL " + number, nil
}
