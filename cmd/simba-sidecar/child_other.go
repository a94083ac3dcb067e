//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup makes cmd the first process of a new group. It goes on when this process is killed.
func ownGroup(cmd *exec.Cmd) (done func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() {}
}

// wait waits for the end of cmd and calls ended.
func wait(cmd *exec.Cmd, ended func()) {
	_ = cmd.Wait() // ProcessState says all
	ended()
}
