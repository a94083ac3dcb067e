package local

import "golang.org/x/sys/unix"

// bootClock counts suspension and cannot be set, unlike this system's CLOCK_MONOTONIC.
const bootClock = unix.CLOCK_MONOTONIC_RAW
