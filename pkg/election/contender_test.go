package election_test

import (
	"strings"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func TestContenderValidate(t *testing.T) {
	t.Parallel()
	c := election.Contender{Mutex: " ", Identity: "a@@b", TTL: time.Millisecond, Transition: time.Millisecond}
	err := c.Validate()
	for _, want := range []string{"mutex", "@@", "ttl 1ms", "transition 1ms"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	c = election.Contender{Mutex: strings.Repeat("ü", 66), Identity: strings.Repeat("i", 128), TTL: time.Second, Transition: 500 * time.Millisecond}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.TTL, c.Transition = 1<<62, 1<<62 // whose sum overflows
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "24h") {
		t.Errorf("got %v for a lease without end", err)
	}
}
