package main

import (
	"fmt"
	"slices"
	"time"
)

// samples are durations of the same thing.
type samples []time.Duration

// quantile returns the smallest sample that at least the share q of all does not exceed.
func (s samples) quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, min(len(sorted)-1, int(q*float64(len(sorted))+0.999999)-1))]
}

// String is a table's cell: p50 / p99 / max in milliseconds.
func (s samples) String() string {
	if len(s) == 0 {
		return "—"
	}
	return fmt.Sprintf("%s / %s / %s", millis(s.quantile(.5)), millis(s.quantile(.99)), millis(slices.Max(s)))
}

func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d.Abs() < time.Millisecond:
		return fmt.Sprintf("%.2f", ms)
	case d.Abs() < 100*time.Millisecond:
		return fmt.Sprintf("%.1f", ms)
	default:
		return fmt.Sprintf("%.0f", ms)
	}
}
