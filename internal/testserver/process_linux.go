package testserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// dieWithParent makes the kernel kill the server when the test binary ends in
// whatever way. A server that then changes its user loses this again, which is
// why servers run as the user who runs the tests.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// frozen reports whether all threads of a process are stopped: each stops on its
// own, and until the last one has, the server may still answer.
func frozen(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // a thread that has ended
		}
		// "tid (name) state …", and the name may contain anything.
		after := bytes.LastIndexByte(text, ')') + 2
		if after >= len(text) || text[after] != 'T' {
			return false
		}
	}
	return true
}
