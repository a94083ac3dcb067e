//go:build !linux

package election

import "time"

// boottime has no counterpart here: the monotonic clock decides alone.
func boottime() time.Duration { return 0 }
