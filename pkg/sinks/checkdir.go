package sinks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CheckDir reports whether, at the wall time now, the files that a sidecar keeps in dir say that it
// leads. It returns an error if they do not tell, as when there are none.
func CheckDir(dir string, now time.Time) (bool, error) {
	leader := filepath.Join(dir, leaderFile)
	text, err := os.ReadFile(leader) //nolint:gosec // the caller's own directory
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, statusFile)); errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("no sidecar has written to %s: start one with --dir %s", dir, dir)
		} else if err != nil {
			return false, err
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	token, expires, ok := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
	if _, err := strconv.ParseUint(token, 10, 64); err != nil {
		ok = false
	}
	ms, err := strconv.ParseInt(expires, 10, 64)
	if !ok || err != nil {
		return false, fmt.Errorf("%s holds %q, not a token and a time in milliseconds: only the sidecar may write it", leader, text)
	}
	return now.Before(time.UnixMilli(ms)), nil
}
