package sinks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/simba-sidecar/simba-sidecar/internal/localfs"
)

const lockFile = "sidecar.lock"

// Term is what a sidecar leaves behind about the term in which it was killed.
type Term struct {
	Mutex    string `json:"mutex"`
	Store    string `json:"store"` // the store's location, without credentials
	Identity string `json:"identity"`
	Token    uint64 `json:"token"`
}

// record is the content of sidecar.lock.
type record struct {
	PID  int    `json:"pid"` // in the namespace of the process that wrote it
	Boot string `json:"boot"`
	Term *Term  `json:"term,omitempty"` // nil: not leading
}

// DirLock is a directory that belongs to this process until it ends.
//
// The kernel drops the lock with the process, so whoever gets it knows that the process before is dead,
// and may go on with the term that the lock file names: nobody else acts on that identity any more. The
// term is written before anything in the directory says "leading", and removed before anything that
// says so is, which leaves three cases for a process that is killed in between: a term in the file and
// no leader file, which is simply continued; a leader file and no term, which is over and cleaned up;
// and a term that the store has, but not the file, which has to run out like any dead process's.
type DirLock struct {
	root *os.Root
	file *os.File
	now  record
	old  *Term
}

// LockDir takes the existing directory dir, which must be on a file system of this machine. Its error
// names the process that has it, if one does.
func LockDir(dir string) (*DirLock, error) {
	if err := localfs.CheckLocal(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s does not exist: create it, or mount a volume there", dir)
		}
		return nil, err
	}
	boot, err := localfs.BootID()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	l := &DirLock{root: root, now: record{PID: os.Getpid(), Boot: boot}}
	if err := l.take(); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// take locks the file and reads what the process before left in it.
func (l *DirLock) take() error {
	for l.file == nil {
		f, err := l.root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		l.file, err = lockStill(l.root, f)
		if err != nil {
			return err
		}
	}
	before, err := readRecord(l.file)
	if err == nil && before.Boot == l.now.Boot {
		l.old, l.now.Term = before.Term, before.Term
	}
	// The process before may have been killed while it continued a term itself: keep it until ours begins
	// or has failed to.
	return l.write()
}

// lockStill locks f. It closes f and returns nil if the directory has another file by that name: two
// processes would hold two locks if one went on with a file that something has deleted.
func lockStill(root *os.Root, f *os.File) (*os.File, error) {
	err := flock(f)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("another process uses %s: give every sidecar a directory of its own", root.Name())
		if holder, unreadable := readRecord(f); unreadable == nil {
			err = fmt.Errorf("the sidecar with pid %d uses %s: give every sidecar a directory of its own", holder.PID, root.Name())
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	mine, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	named, err := root.Stat(lockFile)
	if err == nil && os.SameFile(mine, named) {
		return f, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, f.Close())
	}
	return nil, f.Close()
}

// Predecessor returns the term in which the process before was killed, during this boot of the machine.
// It may be continued under its identity, and with its token, if mutex and store are still the same.
func (l *DirLock) Predecessor() (Term, bool) {
	if l.old == nil {
		return Term{}, false
	}
	return *l.old, true
}

// Close gives the directory up. The lock file stays: another process may just be opening it.
func (l *DirLock) Close() error {
	var errs []error
	if l.file != nil {
		errs = append(errs, l.file.Close())
	}
	return errors.Join(append(errs, l.root.Close())...)
}

// has reports whether the lock file names t.
func (l *DirLock) has(t Term) bool { return l.now.Term != nil && *l.now.Term == t }

// set makes the lock file name t; nil: no term.
func (l *DirLock) set(t *Term) error {
	if t == nil && l.now.Term == nil {
		return nil
	}
	old := l.now.Term
	l.now.Term = t
	if err := l.write(); err != nil {
		l.now.Term = old
		return err
	}
	return nil
}

// write replaces the content of the lock file. It cannot be another file that is renamed into place, as
// the lock is on this one. One write of less than a page at the file's beginning is either done or not
// when the process is killed, and a reader ignores what an older, longer record has left after it. A
// crash of the machine may tear it, but after that the boot id is another one.
func (l *DirLock) write() error {
	line, err := json.Marshal(l.now)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := l.file.WriteAt(line, 0); err != nil {
		return err
	}
	return l.file.Truncate(int64(len(line)))
}

func readRecord(f *os.File) (record, error) {
	var r record
	const whole = 1 << 16
	err := json.NewDecoder(io.NewSectionReader(f, 0, whole)).Decode(&r)
	return r, err
}

func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// path returns the name of a file in the directory, for messages.
func (l *DirLock) path(name string) string { return filepath.Join(l.root.Name(), name) }
