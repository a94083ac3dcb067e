package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a child that ends with us, however we end.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once it is reaped
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel takes the end of the thread that forked for ours
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // who cares how it ended looks at ProcessState
			close(p.ended)
		}
	}()
	return p, <-started
}

// signal sends a signal, which a process that has ended does not mind.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill returns when the process is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// memory returns what the process has in RAM, and the part of it that is backed by no file, in bytes.
func (p *process) memory() (rss, anonymous int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		kilobytes, _ := strconv.Atoi(fields[1]) // fields that are no numbers are not among these
		switch fields[0] {
		case "VmRSS:":
			rss = kilobytes << 10
		case "RssAnon:":
			anonymous = kilobytes << 10
		}
	}
	return rss, anonymous, nil
}

// clockTick is the unit of CPU times in /proc, the same on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpu returns for how long the process has run on a CPU.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), ") ") // the name before it may hold blanks
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat of process %d: %q", p.cmd.Process.Pid, text)
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, err
}
