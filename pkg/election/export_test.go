package election

import "time"

// SetBoottime replaces the clock that counts suspension.
func SetBoottime(e *Elector, f func() time.Duration) { e.clock.boot = f }

// SetJitter replaces the source of randomness.
func SetJitter(e *Elector, f func(time.Duration) time.Duration) { e.jitter = f }
