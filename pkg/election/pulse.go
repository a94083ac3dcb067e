package election

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// pulse is what the loop tells of its own health.
type pulse struct {
	mu       sync.Mutex
	beat     time.Time // when the loop last went round; zero: not running
	call     string    // the backend call in flight; "" for none
	overdue  time.Time // when that call should have returned
	answered bool      // the store has answered once, by more than a read of a free mutex
	refusal  error     // why it has not
}

func (p *pulse) beatAt(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat = now
}

func (p *pulse) stop() { p.beatAt(time.Time{}) }

func (p *pulse) callStarted(name string, overdue time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.call, p.overdue = name, overdue
}

// callReturned takes the result of a call; counts says that it shows what readiness is about.
func (p *pulse) callReturned(err error, counts bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.call = ""
	if counts {
		p.refusal = err
		p.answered = p.answered || err == nil
	}
}

func (p *pulse) live(now time.Time, limit, grace time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := now.Sub(p.beat); !p.beat.IsZero() && d > limit {
		return fmt.Errorf("the election loop has not run for %v", d.Round(time.Millisecond))
	}
	if d := now.Sub(p.overdue); p.call != "" && d > grace {
		return fmt.Errorf("%s ignores its time-out, which passed %v ago", p.call, d.Round(time.Millisecond))
	}
	return nil
}

func (p *pulse) ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.answered:
		return nil
	case p.refusal != nil:
		return p.refusal
	}
	return errors.New("no answer from the store yet")
}
