package local

import "golang.org/x/sys/unix"

// bootClock counts suspension and cannot be set.
const bootClock = unix.CLOCK_BOOTTIME
