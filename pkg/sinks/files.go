package sinks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/statusjson"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

const (
	statusFile = "status.json"
	leaderFile = "leader"
)

// Files is the sink that keeps two files in a directory which the application reads:
//
//	status.json  the same JSON as HTTP answers; always there, rewritten at every renewal
//	leader       "<token> <expiresAt in Unix milliseconds>", with expiresAt as its modification time;
//	             there only while leading
//
// Each is replaced as a whole, so a reader never sees half of one. A process that is killed leaves both
// behind: a reader compares the time in them with its own clock, as CheckDir does.
//
// While leader exists, status.json says "leading" too: when leadership begins leader is written last, and
// when it ends leader is removed first. A status.json that cannot be rewritten then (the disk is full) is
// removed, so that it does not go on saying what is no longer true.
type Files struct {
	dir            *DirLock
	store, backend string
}

var _ Sink = (*Files)(nil)

// NewFiles returns a sink that writes into the locked directory. store is the store's location, as
// recorded for a successor; backend is the kind of store, as shown in status.json.
func NewFiles(dir *DirLock, store, backend string) *Files {
	return &Files{dir: dir, store: store, backend: backend}
}

// Name returns "files".
func (f *Files) Name() string { return "files" }

// Renewals returns true: both files hold the time at which leadership ends.
func (f *Files) Renewals() bool { return true }

// Apply writes s. What a killed predecessor left stays as it is while s is still trying to continue its
// term. ctx is not needed: everything here is local and short.
func (f *Files) Apply(_ context.Context, s election.State) error {
	switch {
	case s.Resuming:
		return nil
	case s.Status == election.Leader:
		return f.lead(s)
	default:
		return f.follow(s)
	}
}

func (f *Files) lead(s election.State) error {
	term := Term{Mutex: s.Mutex, Store: f.store, Identity: s.Identity, Token: s.Token}
	if !f.dir.has(term) {
		// A leader file that is there now is from an earlier term: its readers have to see it end.
		if err := f.remove(leaderFile); err != nil {
			return err
		}
		if err := f.dir.set(&term); err != nil {
			return fmt.Errorf("record the term: %w", err)
		}
	}
	if err := f.writeStatus(s, true); err != nil {
		return err
	}
	expires := s.ExpiresAt()
	if expires.IsZero() {
		return errOvertaken
	}
	text := strconv.FormatUint(s.Token, 10) + " " + strconv.FormatInt(expires.UnixMilli(), 10) + "\n"
	return f.write(leaderFile, []byte(text), expires, s.Leading)
}

func (f *Files) follow(s election.State) error {
	record := f.dir.set(nil)
	if record != nil {
		record = fmt.Errorf("clear the record of the term: %w", record)
	}
	leader := f.remove(leaderFile)
	status := f.writeStatus(s, false)
	if status != nil {
		status = errors.Join(status, f.remove(statusFile))
	}
	return errors.Join(record, leader, status)
}

func (f *Files) writeStatus(s election.State, leading bool) error {
	body := statusjson.Of(s, f.backend)
	if body.Leader != leading {
		return errOvertaken
	}
	text, err := statusjson.Marshal(body)
	if err != nil {
		return err
	}
	return f.write(statusFile, text, time.Time{}, func() bool { return !leading || s.Leading() })
}

// write replaces a file of the directory; modified is its modification time, if not zero. Nothing
// happens to the file if still returns false in the last moment.
func (f *Files) write(name string, text []byte, modified time.Time, still func() bool) error {
	root, temp := f.dir.root, "."+name+".tmp" // one writer: one name, and no litter
	err := f.fill(temp, text)
	if err == nil && !modified.IsZero() {
		err = root.Chtimes(temp, modified, modified)
	}
	switch {
	case err != nil:
	case !still():
		err = errOvertaken
	default:
		err = root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", f.dir.path(name), err), f.remove(temp))
	}
	return nil
}

func (f *Files) fill(name string, text []byte) error {
	if err := f.remove(name); err != nil { // not ours to follow if it is a link
		return err
	}
	file, err := f.dir.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	// The application may run as another user, whatever this process's umask is.
	return errors.Join(err, file.Chmod(0o644), file.Close())
}

func (f *Files) remove(name string) error {
	if err := f.dir.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
