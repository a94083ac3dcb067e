package backendtest

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// tokens grow with every term, whatever happens to the store, and never change within one.
func (s *suite) tokens() []test {
	return slices.Concat(
		[]test{
			{"GrowOverHolders", s.tokensGrow},
		},
		when(s.DeleteMutex != nil,
			test{"OutliveTheMutex", s.tokensOutliveTheMutex},
		),
		when(s.Restart != nil,
			test{"OutliveRestart", s.tokensOutliveRestart},
		),
		when(s.LoseData != nil,
			test{"OutliveLossOfData", s.tokensOutliveLossOfData},
		),
	)
}

func (s *suite) tokensGrow(t *testing.T) {
	mutex := newMutex()
	holders := []*contender{s.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b"), s.contend(t, mutex, "web-2_c")}
	last := uint64(0)
	for i := range 4 * len(holders) {
		c := holders[i%len(holders)]
		if i%4 == 3 { // one that has never seen a token
			c = s.contend(t, mutex, fmt.Sprintf("new-%d", i))
		}
		token := c.wins(t).Token
		if token <= last {
			t.Fatalf("token %d follows token %d", token, last)
		}
		last = token
		c.renews(t, token)
		c.wantGrant(t, "acquire", c.acquire(t), token)
		for _, other := range holders {
			other.sees(t, c, token)
		}
		c.renews(t, token)
		c.release(t, token)
	}
}

// tokensOutliveTheMutex deletes a mutex by hand, while it is held and while it is free.
func (s *suite) tokensOutliveTheMutex(t *testing.T) {
	for name, held := range map[string]bool{"Held": true, "Free": false} {
		t.Run(name, func(t *testing.T) {
			mutex := newMutex()
			a, b := s.contend(t, mutex, "web-0_a"), s.contend(t, mutex, "web-1_b")
			won := a.wins(t)
			if !held {
				a.release(t, won.Token)
			}
			s.DeleteMutex(t, mutex)
			if a := a.renew(t, won.Token); a.Holder != "" {
				t.Errorf("renewing a term of a deleted mutex learned %+v", a.Lease)
			}
			a.release(t, won.Token)
			next := b.winsEventually(t, time.Time{})
			if next.Token <= won.Token {
				t.Errorf("token %d follows token %d, which was given before the mutex was deleted", next.Token, won.Token)
			}
			b.release(t, next.Token)
			fresh := s.contend(t, mutex, "web-2_c") // has never seen a token
			s.DeleteMutex(t, mutex)
			if last := fresh.winsEventually(t, time.Time{}); last.Token <= next.Token {
				t.Errorf("token %d follows token %d, which was given before the mutex was deleted", last.Token, next.Token)
			}
		})
	}
}

// winsEventually takes the mutex over calls that fail, as they do while a server comes back.
func (c *contender) winsEventually(t *testing.T, promise time.Time) (won answer) {
	t.Helper()
	eventually(t, "the mutex to be granted", func() bool {
		a, err := c.try(t, limit(t), acquire, 0)
		if err != nil {
			t.Logf("%s's acquire: %v", c.Identity, err)
			return false
		}
		c.wantNotBefore(t, "acquire", a, promise)
		won = a
		return a.Holder == c.Identity
	})
	return won
}

func (s *suite) tokensOutliveRestart(t *testing.T) {
	own, restart := s.Restart(t)
	o := &suite{own}
	mutex := newMutex()
	a, b := o.open(t, steady(mutex, "web-0_a"), nil), o.open(t, steady(mutex, "web-1_b"), nil)
	won := a.wins(t)
	b.sees(t, a, won.Token)
	restart(t)
	// Both go on with what they have: the server's name and their own connections.
	next := b.winsEventually(t, won.promise())
	if next.Token <= won.Token {
		t.Errorf("token %d follows token %d, which was given before the restart", next.Token, won.Token)
	}
	eventually(t, "the old holder to learn of the new one", func() bool {
		seen, err := a.try(t, limit(t), renew, won.Token)
		return err == nil && seen.Holder == b.Identity && seen.Token == next.Token
	})
}

func (s *suite) tokensOutliveLossOfData(t *testing.T) {
	own, loseData := s.LoseData(t)
	o := &suite{own}
	mutex := newMutex()
	a, b := o.contend(t, mutex, "web-0_a"), o.contend(t, mutex, "web-1_b")
	first := a.wins(t)
	a.release(t, first.Token)
	won := b.wins(t)
	loseData(t)
	next := a.winsEventually(t, time.Time{})
	if next.Token <= won.Token {
		t.Errorf("token %d follows token %d, which was given before the data was lost", next.Token, won.Token)
	}
	eventually(t, "the old holder to learn of the new one", func() bool {
		seen, err := b.try(t, limit(t), renew, won.Token)
		return err == nil && seen.Holder == a.Identity && seen.Token == next.Token
	})
}
