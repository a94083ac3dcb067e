package election

import (
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7 // CLOCK_BOOTTIME in linux/time.h: CLOCK_MONOTONIC that counts suspension too

// boottime returns the time since the machine booted, including the time it was suspended.
func boottime() time.Duration {
	var ts syscall.Timespec
	// The call fails only for a clock that the kernel does not have (before 2.6.39); 0 then leaves
	// the decision to the monotonic clock alone.
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
