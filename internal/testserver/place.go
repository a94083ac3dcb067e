package testserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Ports for servers lie below those that the kernel gives to clients: a server
// that is stopped must find its port free when it is restarted, while clients
// that try to reach it take one new port after the other.
const (
	firstPort = 21000
	portCount = 2000
)

// place is a port and a folder, both named by the port and reserved against all
// other test processes of this user by a lock on a file. The kernel drops the
// lock of a process that was killed, so a folder without a lock is garbage.
type place struct {
	port int
	dir  string
	lock *os.File
}

// baseDir is where all of this user's test servers live.
func baseDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "simba-testserver-"+strconv.Itoa(os.Getuid()))
	return dir, os.MkdirAll(dir, 0o700)
}

// reserve finds a free place, and clears those that nobody freed.
func reserve() (*place, error) {
	base, err := baseDir()
	if err != nil {
		return nil, err
	}
	if err := sweep(base); err != nil {
		return nil, err
	}
	for _, i := range rand.Perm(portCount) {
		p, err := claim(base, firstPort+i)
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue
		}
		if !p.portIsFree() {
			if err := p.free(); err != nil {
				return nil, err
			}
			continue
		}
		return p, os.Mkdir(p.dir, 0o700)
	}
	return nil, fmt.Errorf("no free port from %d to %d", firstPort, firstPort+portCount-1)
}

// claim locks a port and clears its folder; nil means that it is in use. Lock
// files stay forever: removing one could take it from under another process.
func claim(base string, port int) (*place, error) {
	dir := filepath.Join(base, strconv.Itoa(port))
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, errors.Join(err, unlock(lock))
	}
	return &place{port: port, dir: dir, lock: lock}, nil
}

// sweep removes what killed test binaries left behind.
func sweep(base string) error {
	entries, err := os.ReadDir(base)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		port, err := strconv.Atoi(entry.Name())
		if err != nil || !entry.IsDir() {
			continue
		}
		p, err := claim(base, port)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		if err := p.free(); err != nil {
			return err
		}
	}
	return nil
}

// free removes the folder and gives the port up.
func (p *place) free() error {
	return errors.Join(os.RemoveAll(p.dir), unlock(p.lock))
}

// unlock says so explicitly, since closing is not enough: a child that is between
// fork and exec has the file open, too.
func unlock(file *os.File) error {
	return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}

func (p *place) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

func (p *place) portIsFree() bool {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.port})
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// template returns a folder that build has filled, once for each key and user of
// this machine. The key has to name everything that the content depends on.
func template(key string, build func(dir string) error) (string, error) {
	base, err := baseDir()
	if err != nil {
		return "", err
	}
	dir := templateDir(base, key)
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = unlock(lock) }() // the end of the process would do it, too
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	unfinished := dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	if err := build(unfinished); err != nil {
		return "", err
	}
	return dir, os.Rename(unfinished, dir)
}

func templateDir(base, key string) string {
	return filepath.Join(base, "template-"+strings.ToLower(key))
}
