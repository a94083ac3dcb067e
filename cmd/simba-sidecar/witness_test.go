package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// claim is somebody's word that it leads, true of some moment between from and to.
type claim struct {
	who      string
	token    uint64
	from, to time.Time
}

// witness collects claims, and fails its test at the end if two of them cannot both have been true.
type witness struct {
	mu     sync.Mutex
	claims []claim
}

func newWitness(t *testing.T) *witness {
	w := &witness{}
	t.Cleanup(func() {
		claims := w.soFar()
		if len(claims) == 0 {
			t.Error("nobody ever led")
		}
		if err := contradiction(claims); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *witness) add(claims ...claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims = append(w.claims, claims...)
}

func (w *witness) soFar() []claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.claims)
}

// ask asks a sidecar once.
func (w *witness) ask(s *sidecar) {
	from := time.Now()
	if a := s.ask(); a.code == http.StatusOK {
		w.add(claim{a.Identity, a.Token, from, time.Now()})
	}
}

// follow asks sidecars now, again and again, each on its own, and once more when the test ends.
func (w *witness) follow(t *testing.T, sidecars ...*sidecar) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // the test's own ends before its cleanups
	var all sync.WaitGroup
	for _, s := range sidecars {
		w.ask(s)
		all.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
				w.ask(s)
			}
			w.ask(s)
		})
	}
	t.Cleanup(func() { cancel(); all.Wait() })
}

// contradiction finds claims that cannot both be true: two of one term, but not of one contender, or one that was asked
// for when another, of a later term, had already been made.
func contradiction(claims []claim) error {
	holders := map[uint64]string{}
	for _, c := range claims {
		if other, ok := holders[c.token]; ok && other != c.who {
			return fmt.Errorf("%s and %s both lead with token %d", other, c.who, c.token)
		}
		holders[c.token] = c.who
	}
	made := slices.SortedFunc(slices.Values(claims), func(a, b claim) int { return a.to.Compare(b.to) })
	asked := slices.SortedFunc(slices.Values(claims), func(a, b claim) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	var newest claim
	for _, c := range asked {
		for len(made) > 0 && made[0].to.Before(c.from) {
			if made[0].token > newest.token {
				newest = made[0]
			}
			made = made[1:]
		}
		if c.token < newest.token {
			return fmt.Errorf("%s leads with token %d, %v after %s has led with token %d",
				c.who, c.token, c.from.Sub(newest.to), newest.who, newest.token)
		}
	}
	return nil
}

func TestWitnessFindsASecondLeader(t *testing.T) {
	t.Parallel()
	start := time.Now()
	said := func(who string, token uint64, from, to int) claim {
		return claim{who, token, start.Add(time.Duration(from)), start.Add(time.Duration(to))}
	}
	for name, c := range map[string]struct {
		claims []claim
		wrong  bool
	}{
		"one after the other":  {[]claim{said("a", 1, 0, 1), said("a", 1, 2, 3), said("b", 2, 4, 5)}, false},
		"asked together":       {[]claim{said("a", 1, 0, 9), said("b", 2, 1, 2)}, false},
		"back to the first":    {[]claim{said("a", 1, 0, 1), said("b", 2, 2, 3), said("a", 3, 4, 5)}, false},
		"written down later":   {[]claim{said("b", 2, 4, 5), said("a", 1, 0, 1)}, false},
		"the old one goes on":  {[]claim{said("a", 1, 0, 1), said("b", 2, 2, 3), said("a", 1, 4, 5)}, true},
		"the new one is early": {[]claim{said("b", 2, 0, 1), said("a", 1, 2, 3)}, true},
		"long in answering":    {[]claim{said("b", 2, 1, 2), said("a", 1, 3, 9), said("b", 2, 4, 5)}, true},
		"one term for two":     {[]claim{said("a", 1, 0, 1), said("b", 1, 2, 3)}, true},
	} {
		if err := contradiction(c.claims); (err != nil) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
