package local

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// state is the content of a state file.
type state struct {
	Mutex string `json:"mutex"`
	// Holder is "" after a release. Otherwise its lease ends when CLOCK_BOOTTIME reaches Expires (in
	// nanoseconds) in that boot of the machine, or with that boot.
	Holder  string        `json:"holder,omitempty"`
	Token   uint64        `json:"token"` // of the latest term, also after its end
	Boot    string        `json:"boot,omitempty"`
	Expires time.Duration `json:"expires,omitempty"`

	missing bool // there is no file: there never was, or somebody deleted it
}

// live reports whether the lease lasts beyond now in that boot.
func (s *state) live(boot string, now time.Duration) bool {
	return s.Holder != "" && s.Boot == boot && now < s.Expires
}

// extend never moves the end of the lease back: the same term may have been given a longer one.
func (s *state) extend(expires time.Duration) { s.Expires = max(s.Expires, expires) }

// readState returns the state of mutex. A missing file is a free mutex whose tokens are to start above
// every one that a deleted file can have held.
func readState(path, mutex string) (state, error) {
	content, err := os.ReadFile(path) //nolint:gosec // the path is the operator's directory and a derived name
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return state{}, fmt.Errorf("directory is gone, create it again: %w", err)
		}
		return state{Mutex: mutex, Token: uint64(max(0, time.Now().UnixMicro())), missing: true}, nil
	}
	if err != nil {
		return state{}, err
	}
	var s state
	switch err := json.Unmarshal(content, &s); {
	case err != nil:
		return state{}, unusable(path, err)
	case s.Mutex != mutex:
		return state{}, unusable(path, fmt.Errorf("it belongs to mutex %q, not to %q", s.Mutex, mutex))
	case s.Holder != "" && (s.Token == 0 || s.Boot == "" || s.Expires <= 0):
		return state{}, unusable(path, errors.New("it has a holder, but not all of token, boot and expires"))
	}
	return s, nil
}

// unusable tells the operator what to do about a state file that this package did not write.
func unusable(path string, err error) error {
	return fmt.Errorf("state file %s cannot be understood (%w): wait until no contender leads, then delete it; tokens go on growing", path, err)
}

// replace writes s beside path and renames it there, unless commit, which is called last, has a reason
// not to. A crash of the machine leaves the old or the new content, and never a part of one.
func (s *state) replace(path string, commit func() error) (err error) {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	// A random name: were the lock ever lost, two writers must not share a file.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(append(content, '\n'))
	// Contenders and observers may run as other users; who may enter the directory decides.
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := commit(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// syncDirectory puts the names of files that were renamed in dir on disk.
func syncDirectory(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the operator's directory
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// fileName returns mutex as a name for files that is safe and unique everywhere: a readable part, in
// which all that some file system might refuse or confuse is replaced, and a hash that tells apart the
// mutexes which this makes equal.
func fileName(mutex string) string {
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, mutex)
	hash := sha256.Sum256([]byte(mutex))
	return readable + "-" + hex.EncodeToString(hash[:16])
}
