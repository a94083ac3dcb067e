package main

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup makes cmd the first process of a new group, and has the kernel kill it when this process is
// killed: nobody would be left to end it when the lease runs out. The kernel takes the end of the thread
// that started it for the end of this process, so the calling goroutine keeps its thread until done.
func ownGroup(cmd *exec.Cmd) (done func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return runtime.UnlockOSThread
}

// wait waits for the end of cmd and calls ended while the process is a zombie, so that its number and that
// of its group still belong to nobody else.
func wait(cmd *exec.Cmd, ended func()) {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	ended()
	_ = cmd.Wait() // ProcessState says all
}
