package local

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// boottime returns the time since the machine booted, the same for all its processes.
func boottime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(bootClock, &ts); err != nil {
		return 0, fmt.Errorf("clock of the machine's boot: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}
