package election

import "time"

// instant is one moment on the two clocks that leadership is measured by. Each misses something: the
// monotonic clock stops while the machine is suspended, and only Go's own timers follow it. The zero
// instant lies in the past.
type instant struct {
	mono time.Time     // with a monotonic reading; its wall time is never used
	boot time.Duration // CLOCK_BOOTTIME; 0 where there is none
}

// clock reads both clocks. Its only field exists so that a test can suspend the machine.
type clock struct{ boot func() time.Duration }

func (c *clock) now() instant { return instant{time.Now(), c.boot()} }

func (t instant) add(d time.Duration) instant { return instant{t.mono.Add(d), t.boot + d} }

// until returns how long it is from now to t, by the clock that says less.
func (t instant) until(now instant) time.Duration {
	return min(t.mono.Sub(now.mono), t.boot-now.boot)
}

// since returns how long it is from t to now, by the clock that says more.
func (t instant) since(now instant) time.Duration { return -t.until(now) }
