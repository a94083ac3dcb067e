package election_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

func TestLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		a, b := s.client("a"), s.client("b")
		first, err := election.Lock(t.Context(), a, a.c, nil)
		if err != nil {
			t.Fatal(err)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := election.Lock(impatient, b, b.c, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v while a holds", err)
		}
		if first.Err() != nil || first.Token() != 1 {
			t.Errorf("err %v, token %d", first.Err(), first.Token())
		}
		if err := first.Unlock(); err != nil {
			t.Fatal(err)
		}
		if first.Err() == nil || errors.Is(context.Cause(first), election.ErrLost) {
			t.Errorf("after Unlock: err %v, cause %v", first.Err(), context.Cause(first))
		}
		second, err := election.Lock(t.Context(), b, b.c, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.down = true })
		<-second.Done()
		if cause := context.Cause(second); !errors.Is(cause, election.ErrLost) {
			t.Errorf("cause %v, want ErrLost", cause)
		}
		s.set(func() { s.down = false })
		pass(t, 2*lease)
		if holder, token := s.owner(); holder != "" || token != 2 {
			t.Errorf("store says %q %d after the loss, want no further term", holder, token)
		}
		if err := second.Unlock(); err != nil {
			t.Error(err)
		}
	})
}
