package testserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// tailSize is how much of a log's end, in bytes, a failure message shows.
const tailSize = 4 << 10

// process is one run of a server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited and is reaped
}

// startProcess runs argv in dir, with what it prints appended to the log file.
func startProcess(argv []string, dir, logFile string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor

	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)

	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel takes the end of the thread that forked for the end of the
		// parent, so that thread has to stay for as long as the server.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // end tells
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// signal sends to the whole process group: some servers are several processes.
// A group that is gone needs no signal.
func (p *process) signal(sig syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, sig) }

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// end says how a process that has exited did so.
func (p *process) end() string { return p.cmd.ProcessState.String() }

// kill ends the process at once and returns when it is reaped.
func (p *process) kill() {
	if !p.exited() { // afterwards the pid may be another's
		p.signal(syscall.SIGKILL)
	}
	<-p.done
}

// stop ends the process in its own way and reports whether it did so in time.
func (p *process) stop(timeout time.Duration) bool {
	if !p.exited() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // the main process sees to the others
		p.signal(syscall.SIGCONT)                 // a frozen process gets no other signal
	}
	select {
	case <-p.done:
		return true
	case <-time.After(timeout):
		return false
	}
}

// pause returns when every thread of the process stands still.
func (p *process) pause(timeout time.Duration) error {
	p.signal(syscall.SIGSTOP)
	for deadline := time.Now().Add(timeout); !frozen(p.cmd.Process.Pid); time.Sleep(time.Millisecond) {
		if p.exited() {
			return errors.New("the process has ended")
		}
		if time.Now().After(deadline) {
			return errors.New("the process does not stand still")
		}
	}
	return nil
}

// tailOf returns the last lines of a log.
func tailOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	from := max(0, size-tailSize)
	text, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return "", err
	}
	if from > 0 { // begin with a whole line
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return string(text), nil
}
