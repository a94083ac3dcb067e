package mysql

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func TestReadsTheRow(t *testing.T) {
	t.Parallel()
	const now = 1_800_000_000_000
	for name, test := range map[string]struct {
		row   row
		lease election.Lease
		err   error
	}{
		"never held":          {row{now: now, token: 7}, election.Lease{}, nil},
		"held":                {row{owner: "a", transitionAt: now + 1500, now: now, token: 7}, election.Lease{Holder: "a", Token: 7, Remaining: 1500 * time.Millisecond}, nil},
		"held by an old JVM":  {row{owner: "a", transitionAt: now + 1500, now: now}, election.Lease{Holder: "a", Remaining: 1500 * time.Millisecond}, nil},
		"last millisecond":    {row{owner: "a", transitionAt: now, now: now, token: 7}, election.Lease{Holder: "a", Token: 7, Remaining: time.Millisecond}, nil},
		"lapsed":              {row{owner: "a", transitionAt: now - 1, now: now, token: 7}, election.Lease{Lapsed: true}, nil},
		"the end of all time": {row{owner: "a", transitionAt: math.MaxUint64, now: now, token: 7}, election.Lease{Holder: "a", Token: 7, Remaining: math.MaxInt64 / time.Millisecond / 2 * time.Millisecond}, nil},
		"clock at its end":    {row{owner: "a", transitionAt: now}, election.Lease{}, errClock},
		"nobody's lease":      {row{transitionAt: now + 1, now: now}, election.Lease{}, errOwner},
	} {
		got, err := test.row.lease()
		if got != test.lease || !errors.Is(err, test.err) {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, err, test.lease, test.err)
		}
	}
}
