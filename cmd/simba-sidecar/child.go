package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// child is the sink of `run`: a command that is started once, when this process leads for the first time,
// and that has ended before the mutex is given up.
type child struct {
	path        string
	args        []string // with the name as args[0]
	env         []string
	stdout      io.Writer
	stderr      io.Writer
	stopTimeout time.Duration
	log         *slog.Logger

	signal atomic.Int32 // what this process was told to end with; 0: nothing yet

	mu      sync.Mutex
	started bool
	lost    bool // the command had to end because leadership did
	group   int  // the command's process group; 0 before it is started and after it has ended

	over chan struct{} // closed when the command has ended, or cannot be started
	code int           // valid once over is closed
	err  error         // why it cannot be started, likewise
}

// newChild finds the program of a command line. Its error knows its exit code.
func newChild(command []string) (*child, error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		code := startFailure(err)
		if failed := (*exec.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // which does not name the command again
		}
		return nil, &exitError{code, fmt.Errorf("cannot run %s: %w", command[0], err)}
	}
	return &child{path: path, args: command, over: make(chan struct{})}, nil
}

// startFailure returns the exit code of env(1) for a command that did not start.
func startFailure(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}

// Name returns "command".
func (c *child) Name() string { return "command" }

// Renewals returns false: the command knows of its term only that it lasts.
func (c *child) Renewals() bool { return false }

// Apply starts the command when s leads, and ends it when s does not.
func (c *child) Apply(ctx context.Context, s election.State) error {
	if s.Status == election.Leader {
		c.start(s)
		return nil
	}
	return c.stop(ctx, s)
}

// start starts the command unless it was started before: one `run` is one run.
func (c *child) start(s election.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || !s.Leading() {
		return
	}
	c.started = true
	cmd := &exec.Cmd{
		Path:   c.path,
		Args:   c.args,
		Env:    append(c.env, envToken+"="+strconv.FormatUint(s.Token, 10), envMutex+"="+s.Mutex, envHolder+"="+s.Identity),
		Stdin:  os.Stdin,
		Stdout: c.stdout,
		Stderr: c.stderr,
	}
	running := make(chan error)
	go c.run(cmd, running)
	if err := <-running; err != nil {
		c.err = fmt.Errorf("cannot run %s: %w", c.args[0], err)
		c.code = startFailure(err)
		close(c.over)
		return
	}
	c.group = cmd.Process.Pid
	c.log.Info("command started", "pid", c.group, "token", s.Token)
}

// run is the goroutine that starts cmd and waits for it.
func (c *child) run(cmd *exec.Cmd, running chan<- error) {
	defer ownGroup(cmd)()
	err := cmd.Start()
	running <- err
	if err != nil {
		return
	}
	wait(cmd, func() {
		c.kill(syscall.SIGKILL) // what the command left behind would go on without the mutex
		c.mu.Lock()
		c.group = 0 // from here on the number may be another process's
		c.mu.Unlock()
	})
	c.code = cmd.ProcessState.ExitCode()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		c.code = exitSignalBased + int(status.Signal())
	}
	c.log.Info("command ended", "code", c.code)
	close(c.over)
}

// stop ends the command: at first with the signal that this process got, or TERM; and by force after
// the stop time-out, or when ctx says that others may soon lead. It returns when the command has ended.
func (c *child) stop(ctx context.Context, s election.State) error {
	c.mu.Lock()
	running := c.group != 0
	if running && c.signal.Load() == 0 {
		c.lost = true
	}
	c.mu.Unlock()
	if !running {
		return nil
	}
	patience := c.stopTimeout
	if s.Status != election.SteppingDown {
		// A process that was stopped for long comes here when others lead already, with a ctx that has
		// no end.
		patience = min(patience, time.Until(s.Cutoff()))
	}
	if patience > 0 {
		c.kill(cmp.Or(syscall.Signal(c.signal.Load()), syscall.SIGTERM))
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-c.over:
			return nil
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	c.log.Warn("command does not end, killing it")
	c.kill(syscall.SIGKILL)
	<-c.over
	return nil
}

// end makes sure that nothing of the command is left when this process ends, whatever ends it, and returns
// the exit code that tells what became of the command; 0 also if it was never started.
func (c *child) end() int {
	c.kill(syscall.SIGKILL)
	c.mu.Lock()
	started := c.started
	c.mu.Unlock()
	if !started {
		return 0
	}
	<-c.over
	return c.code
}

// kill sends a signal to the command and all that it has started, if it runs.
func (c *child) kill(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group != 0 {
		_ = syscall.Kill(-c.group, s) // fails only if there is nobody left
	}
}
