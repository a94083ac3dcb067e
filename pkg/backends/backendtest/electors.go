package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
	"github.com/simba-sidecar/simba-sidecar/pkg/election"
)

// electors are whole contenders: what the JVM library's own tests ask of every store, and what only shows
// when an Elector, the backend and the store's clock work together.
func (s *suite) electors() []test {
	return slices.Concat(
		[]test{
			{"StartAndStop", s.startAndStop},
			{"SameBackendAgain", s.sameBackendAgain},
			{"LeadsBeyondTheLease", s.leadsBeyondTheLease},
			{"Observer", s.observer},
			{"StandbyFollows", s.standbyFollows},
			{"Contention", s.contention},
		},
		when(s.networked(),
			test{"Partition", s.partition},
		),
	)
}

// candidate is an Elector that runs.
type candidate struct {
	*election.Elector
	identity string
	stop     context.CancelFunc
	ran      chan error // Run's result
}

// elect runs an Elector for c. It is stopped with the test, unless that has done so.
func (s *suite) elect(t *testing.T, b election.Backend, c election.Contender, p election.Publisher, o *election.Options) *candidate {
	t.Helper()
	e, err := election.New(b, c, p, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	k := &candidate{e, c.Identity, cancel, make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.ran <- e.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		receive(t, c.Identity+"'s elector to stop", done)
	})
	return k
}

// ends stops the Elector in order.
func (k *candidate) ends(t *testing.T) {
	t.Helper()
	k.stop()
	if err := receive(t, k.identity+"'s elector to stop", k.ran); err != nil {
		t.Errorf("%s's elector: %v", k.identity, err)
	}
	if k.State().Leading() {
		t.Errorf("%s leads after its elector has stopped", k.identity)
	}
}

func (k *candidate) leads(t *testing.T) election.State {
	t.Helper()
	var s election.State
	eventually(t, k.identity+" to lead", func() bool { s = k.State(); return s.Leading() })
	return s
}

// follows waits until the Elector names that holder and term.
func (k *candidate) follows(t *testing.T, leader election.State) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s to follow %s", k.identity, leader.Identity), func() bool {
		s := k.State()
		return s.Holder == leader.Identity && s.Token == leader.Token
	})
}

func (s *suite) startAndStop(t *testing.T) {
	mutex := newMutex()
	look := s.contend(t, mutex, "look")
	for range 2 {
		c := calm(mutex, "web-0_a")
		k := s.elect(t, s.open(t, c, nil).backend, c, nil, nil)
		state := k.leads(t)
		if a := look.observe(t); k.State().Leading() && (a.Holder != c.Identity || a.Token != state.Token) {
			t.Errorf("%s leads with token %d and the store says %+v", c.Identity, state.Token, a.Lease)
		}
		k.ends(t)
		look.seesFree(t)
	}
	c := calm(mutex, "web-1_b") // stopped before it could lead
	k := s.elect(t, s.open(t, c, nil).backend, c, nil, nil)
	k.ends(t)
	look.seesFree(t)
}

// sameBackendAgain gives the Backend of an Elector that has stopped to another.
func (s *suite) sameBackendAgain(t *testing.T) {
	c := calm(newMutex(), "web-0_a")
	b := s.open(t, c, nil).backend
	last := uint64(0)
	for range 3 {
		k := s.elect(t, b, c, nil, nil)
		state := k.leads(t)
		if state.Token <= last {
			t.Errorf("token %d follows token %d", state.Token, last)
		}
		last = state.Token
		k.ends(t)
	}
}

// leadsBeyondTheLease shows that renewals keep one term going for as long as it likes.
func (s *suite) leadsBeyondTheLease(t *testing.T) {
	mutex := newMutex()
	c := steady(mutex, "web-0_a")
	k := s.elect(t, s.open(t, c, nil).backend, c, nil, nil)
	first := k.leads(t)
	b := s.open(t, calm(mutex, "web-1_b"), nil)
	for end := time.Now().Add(2 * c.Lease()); time.Now().Before(end); time.Sleep(c.TTL / 40) {
		if state := k.State(); !state.Leading() || state.Token != first.Token {
			t.Fatalf("the term with token %d became %+v", first.Token, state)
		}
		b.wantHeld(t, "acquire", b.acquire(t), &contender{Contender: c, suite: s}, first.Token)
	}
	if state := k.State(); state.Remaining() <= 0 || state.Remaining() > c.Lease() {
		t.Errorf("%v of a lease of %v remain", state.Remaining(), c.Lease())
	}
}

func (s *suite) observer(t *testing.T) {
	mutex := newMutex()
	c := calm(mutex, "observer")
	o := s.elect(t, s.open(t, c, nil).backend, c, nil, &election.Options{ObserveOnly: true})
	eventually(t, "the observer's first answer", func() bool { return o.Ready() == nil })
	look := s.contend(t, mutex, "look")
	look.seesFree(t)
	for i := range 2 {
		c := calm(mutex, fmt.Sprintf("web-%d", i))
		k := s.elect(t, s.open(t, c, nil).backend, c, nil, nil)
		o.follows(t, k.leads(t))
		if state := o.State(); state.Leading() || state.Status != election.Observer {
			t.Errorf("the observer is %+v", state)
		}
		k.ends(t)
		eventually(t, "the observer to see the mutex free", func() bool { return o.State().Holder == "" })
	}
	o.ends(t)
	look.seesFree(t)
}

func (s *suite) standbyFollows(t *testing.T) {
	mutex := newMutex()
	var all []*candidate
	for i := range 3 {
		c := calm(mutex, fmt.Sprintf("web-%d", i))
		all = append(all, s.elect(t, s.open(t, c, nil).backend, c, nil, nil))
	}
	last := uint64(0)
	for range 4 {
		leader := agree(t, all)
		token := leader.State().Token
		if err := leader.StepDown(t.Context(), time.Second); err != nil {
			t.Errorf("%s's step-down: %v", leader.identity, err)
		}
		if token <= last {
			t.Errorf("token %d follows token %d", token, last)
		}
		last = token
	}
}

// someLeader waits until one of the candidates leads.
func someLeader(t *testing.T, all []*candidate) (leader *candidate) {
	t.Helper()
	eventually(t, "a leader", func() bool {
		for _, k := range all {
			if k.State().Leading() {
				leader = k
				return true
			}
		}
		return false
	})
	return leader
}

// partition cuts a leader off. It must have stopped leading before the next one begins, without having
// heard a word, and must come back as a standby.
func (s *suite) partition(t *testing.T) {
	proxy := s.proxy(t)
	mutex := newMutex()
	stage := newStage(t)
	a, b := calm(mutex, "web-0_a"), calm(mutex, "web-1_b")
	ka := s.elect(t, s.open(t, a, proxy).backend, a, stage.part(), nil)
	first := ka.leads(t)
	kb := s.elect(t, s.open(t, b, nil).backend, b, stage.part(), nil)
	kb.follows(t, first)
	for _, fault := range []func(){proxy.Blackhole, proxy.Refuse} {
		fault()
		next := kb.leads(t)
		if ka.State().Leading() {
			t.Error("a leader that is cut off goes on leading beside its successor")
		}
		proxy.Pass()
		ka.follows(t, next)
		kb.ends(t)
		first = ka.leads(t)
		if first.Token <= next.Token {
			t.Errorf("token %d follows token %d", first.Token, next.Token)
		}
		b.Identity += "b"
		kb = s.elect(t, s.open(t, b, nil).backend, b, stage.part(), nil)
		kb.follows(t, first)
	}
}

// contention has ten contenders on one mutex for half a minute, while leaders step down, stop or lose
// their connection. At no time may two lead, and in the end all agree.
func (s *suite) contention(t *testing.T) {
	duration := 30 * time.Second
	if testing.Short() {
		duration = 6 * time.Second
	}
	const contenders = 10
	mutex := newMutex()
	stage := newStage(t)
	h := &History{Late: s.Late}
	var all []*candidate
	var proxies []*faultproxy.Proxy
	for i := range contenders {
		c := calm(mutex, fmt.Sprintf("web-%d", i))
		var proxy *faultproxy.Proxy
		if s.Addr != "" {
			proxy = s.proxy(t)
		}
		b := h.Record(s.open(t, c, proxy).backend, c)
		all = append(all, s.elect(t, b, c, stage.part(), nil))
		proxies = append(proxies, proxy)
	}
	rounds := 0
	for end := time.Now().Add(duration); time.Now().Before(end); rounds++ {
		leader := someLeader(t, all)
		if rounds%4 == 0 { // standbys whose hints are exclusive learn of a new leader only when they poll
			leader = agree(t, all)
		}
		switch i := index(all, leader); {
		case rounds%5 == 4 && proxies[i] != nil:
			proxies[i].Refuse()
			eventually(t, "a leader without connection to give up", func() bool { return !leader.State().Leading() })
			proxies[i].Pass()
		default:
			if err := leader.StepDown(t.Context(), 300*time.Millisecond); err != nil && !errors.Is(err, election.ErrNotReleased) {
				t.Errorf("%s's step-down: %v", leader.identity, err)
			}
		}
	}
	agree(t, all)
	for _, k := range all {
		k.stop()
	}
	for _, k := range all {
		k.ends(t)
	}
	t.Logf("%d rounds, %d terms", rounds, h.Terms())
	if least := int(duration / (6 * time.Second)); h.Terms() < least {
		t.Errorf("%d terms in %v: too few to show anything", h.Terms(), duration)
	}
	h.Check(t)
}

func index(all []*candidate, k *candidate) int {
	for i := range all {
		if all[i] == k {
			return i
		}
	}
	return -1
}

// agree waits until all name the same holder and term, and returns that leader. Leaders may change
// meanwhile.
func agree(t *testing.T, all []*candidate) (leader *candidate) {
	t.Helper()
	eventually(t, "all contenders to agree", func() bool {
		leader = someLeader(t, all)
		want := leader.State()
		for _, k := range all {
			if s := k.State(); s.Holder != want.Holder || s.Token != want.Token || s.Leading() != (k == leader) {
				return false
			}
		}
		return want.Leading()
	})
	return leader
}

// stage checks that no two contenders lead at the same time. It learns of each end of leading before the
// mutex is given back, and of each beginning before anybody else does.
type stage struct {
	t *testing.T

	mu     sync.Mutex
	leads  map[*part]election.State
	tokens map[uint64]string // who had which term
	last   uint64
}

func newStage(t *testing.T) *stage {
	return &stage{t: t, leads: map[*part]election.State{}, tokens: map[uint64]string{}}
}

// part is one contender's Publisher.
type part struct{ stage *stage }

func (s *stage) part() *part { return &part{s} }

func (p *part) Settle(context.Context) error { return nil }

func (p *part) Publish(state election.State) {
	s := p.stage
	s.mu.Lock()
	defer s.mu.Unlock()
	if state.Token != 0 {
		if holder, ok := s.tokens[state.Token]; ok && holder != state.Holder {
			s.t.Errorf("%s says that %s holds the term %d, which was %s's", state.Identity, state.Holder, state.Token, holder)
		}
		s.tokens[state.Token] = state.Holder
	}
	_, led := s.leads[p]
	delete(s.leads, p)
	if state.Status != election.Leader {
		return
	}
	for _, other := range s.leads {
		if other.Leading() && state.Leading() {
			s.t.Errorf("%s leads with token %d beside %s with token %d", state.Identity, state.Token, other.Identity, other.Token)
		}
	}
	if !led && state.Token <= s.last {
		s.t.Errorf("%s leads with token %d after token %d", state.Identity, state.Token, s.last)
	}
	s.last = max(s.last, state.Token)
	s.leads[p] = state
}
