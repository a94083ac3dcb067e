//go:build !linux

package testserver

import "syscall"

// dieWithParent does nothing where the kernel cannot: there a server outlives a
// test binary that was killed.
func dieWithParent(*syscall.SysProcAttr) {}

// frozen trusts that a SIGSTOP has taken effect.
func frozen(int) bool { return true }
