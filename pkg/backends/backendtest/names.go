package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// names are what people call mutexes and contenders.
func (s *suite) names() []test {
	tests := []test{
		{"Mutexes", s.mutexNames},
		{"Identities", s.identities},
		{"EqualButForCase", s.equalButForCase},
	}
	for _, c := range s.Collisions {
		tests = append(tests, test{"Collision/" + c.Name, func(t *testing.T) { s.collision(t, c) }})
	}
	return tests
}

// oddNames are as far from plain names, and as close to each other, as Contender.Validate allows.
func oddNames(limit int) []string {
	return []string{
		strings.Repeat("m", limit),
		strings.Repeat("m", limit-1) + "n",
		strings.Repeat("選", limit),
		strings.Repeat("🦁", limit),
		"orders", "Orders", "ORDERS",
		"prüfung", "prufung", "straße", "strasse", "ı", "i",
		`it's`, `say "hello"`, "`back`", `back\slash`, `\`, `\'; drop table simba_mutex; --`,
		"100%", "%s%d%n", "%2F", "_", "__", "a_b", "a%b", "axb",
		"team/orders", "/orders", "../orders", "..", ".", "team//orders",
		"a b", "a:b", "a@b", "a#b", "a?b", "a&b=c", "a+b", "a,b", "a;b", "a|b", "a*b", "a~b", "a$b",
		"{orders}", "[orders]", "(orders)", "<orders>",
		"0:1@10.0.0.1", "-", "--help", "0", "null", "latch-0000000000",
		"tab\tand\nnewline", "\u202eright to left", "e\u0301", "\u00e9",
	}
}

// mutexNames holds mutexes of all names at once, so that no two of them can be the same.
func (s *suite) mutexNames(t *testing.T) {
	type held struct {
		*contender
		token uint64
	}
	var all []held
	for i, name := range oddNames(election.MaxMutexLength) {
		// Since the names are the same in every run, the lease is one that a later run can wait for.
		c := election.Contender{Mutex: name, Identity: fmt.Sprintf("web-%d", i), TTL: patience * 8 / 10, Transition: patience / 10}
		if slices.Contains(s.Refused, name) {
			s.refuses(t, c)
			continue
		}
		a := s.open(t, c, nil)
		all = append(all, held{a, a.winsEventually(t, time.Time{}).Token})
	}
	for _, h := range all {
		h.renews(t, h.token)
		b := s.contend(t, h.Mutex, "look")
		b.wantHeld(t, fmt.Sprintf("acquire of %q", h.Mutex), b.acquire(t), h.contender, h.token)
	}
	for _, h := range all {
		h.release(t, h.token)
	}
}

// refuses checks that the store says which name it cannot hold.
func (s *suite) refuses(t *testing.T, c election.Contender) {
	t.Helper()
	b, err := s.Open(s.Addr, c)
	if err == nil {
		defer func() { _ = b.Close() }()
		var lease election.Lease
		if lease, err = b.Acquire(t.Context()); err == nil {
			t.Errorf("mutex %q was to be refused and was acquired: %+v", c.Mutex, lease)
			return
		}
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("%q", c.Mutex)) {
		t.Errorf("the error does not quote the mutex %q: %v", c.Mutex, err)
	}
}

// identities lets contenders of all names take turns on one mutex: none may pass for another, and each is
// seen by its own name.
func (s *suite) identities(t *testing.T) {
	mutex := newMutex()
	names := append(oddNames(election.MaxIdentityLength), "orders ", " orders", "orders\t")
	holder := s.contend(t, mutex, "first")
	token := holder.wins(t).Token
	for _, name := range names {
		c := s.contend(t, mutex, name)
		c.wantHeld(t, "acquire", c.acquire(t), holder, token)
		c.wantHeld(t, "renew", c.renew(t, token), holder, token)
		c.release(t, token)
		c.release(t, 0)
		c.sees(t, holder, token)
		holder.release(t, token)
		holder, token = c, c.wins(t).Token
		holder.renews(t, token)
	}
}

func (s *suite) equalButForCase(t *testing.T) {
	lower := newMutex()
	upper := strings.ToUpper(lower)
	if slices.Contains(s.Refused, "ORDERS") {
		s.refuses(t, patient(upper, "web-0_a"))
		return
	}
	a, b := s.contend(t, lower, "web-0_a"), s.contend(t, upper, "web-1_b")
	wonA, wonB := a.wins(t), b.wins(t)
	a.sees(t, a, wonA.Token)
	b.sees(t, b, wonB.Token)
}

// collision shows that of two names which are one to the store the second is refused, instead of being
// excluded by a mutex that has nothing to do with it.
func (s *suite) collision(t *testing.T, c Collision) {
	o := &suite{s.Harness}
	if c.Open != nil {
		o.Open = c.Open
	}
	a := o.contend(t, c.First, "web-0_a")
	won := a.wins(t)
	b, err := o.Open(o.Addr, patient(c.Second, "web-1_b"))
	if err == nil {
		t.Cleanup(func() { _ = b.Close() })
		var lease election.Lease
		if lease, err = b.Acquire(t.Context()); err == nil {
			t.Fatalf("acquiring %q while %q is held answered %+v", c.Second, c.First, lease)
		}
		if lease, err := b.Observe(t.Context()); err == nil {
			t.Errorf("observing %q while %q is held answered %+v", c.Second, c.First, lease)
		}
	}
	if !strings.Contains(err.Error(), c.Cause) {
		t.Errorf("the error does not name the cause, %q: %v", c.Cause, err)
	}
	a.sees(t, a, won.Token)
	a.renews(t, won.Token)
	a.release(t, won.Token)
}
