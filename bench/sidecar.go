package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// longPoll is how long one request waits for news; the sidecar allows a minute.
const longPoll = 55 * time.Second

// sidecar is a built simba-sidecar, known by nothing but its HTTP answers, its log and its end.
type sidecar struct {
	*process
	lease    time.Duration
	begun    time.Time
	client   *http.Client
	unfollow context.CancelFunc
	done     sync.WaitGroup // what reads its log and follows its state

	mu       sync.Mutex
	url      string
	answered time.Time // when the first answer to /leader was here
	led      time.Time // when the first 200 was here
	status   string    // as last answered
	hinted   bool      // it would be woken
	held     time.Time // start of the last call that it knows to have given it a lease
	released time.Time // start of the call that gave it up
	lastLine string
}

// sidecarOptions say how sidecars are run.
type sidecarOptions struct {
	binary, backend string
	ttl, transition time.Duration
}

// start starts a sidecar and follows it. It calls lead with the time of each first 200 after
// another answer.
func (o *sidecarOptions) start(ctx context.Context, mutex, name string, lead func(time.Time)) (*sidecar, error) {
	cmd := exec.CommandContext(ctx, o.binary,
		"--mutex", mutex, "--name", name, "--backend", o.backend,
		"--ttl", o.ttl.String(), "--transition", o.transition.String(),
		"--listen", "127.0.0.1:0", "--admin-listen", "off", "--log-level", "debug")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	log, logEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = logEnd
	s := &sidecar{lease: o.ttl + o.transition, client: &http.Client{Transport: &http.Transport{}}, begun: time.Now()}
	s.process, err = startProcess(cmd)
	if err := errors.Join(err, logEnd.Close()); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	s.done.Go(func() {
		s.readLog(log)
		_ = log.Close()
	})
	if err := s.until(ctx, "listens", func() bool { return s.url != "" }); err != nil {
		s.close()
		return nil, err
	}
	following, unfollow := context.WithCancel(ctx)
	s.unfollow = unfollow
	s.done.Go(func() { s.follow(following, lead) })
	return s, nil
}

// readLog takes from the debug log what HTTP does not tell: when calls to the store began. A line is
// written when the answer is in and says how long that took.
func (s *sidecar) readLog(log io.Reader) {
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct {
			Time                       time.Time
			Msg, Call, Address, Holder string
			Identity, Took             string
			Err                        any
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		s.mu.Lock()
		s.lastLine = lines.Text()
		took, _ := time.ParseDuration(line.Took) // only calls have one
		began := line.Time.Add(-took)
		switch {
		case line.Msg == "listening":
			s.url = "http://" + line.Address
		case line.Msg == "hints stand":
			s.hinted = true
		case line.Msg != "call" || line.Err != nil:
		case line.Call == "release":
			s.released = began
		case line.Call != "observe" && line.Holder == line.Identity:
			s.held = began
		}
		s.mu.Unlock()
	}
}

// follow asks for one change of state after the other. A waiting request costs the sidecar nothing, and
// its answer is here as soon as that of a poller in a tight loop, which would take CPU from the others.
func (s *sidecar) follow(ctx context.Context, lead func(time.Time)) {
	leading := false
	for revision := uint64(0); ; {
		code, body, err := s.get(ctx, s.url+"/leader?wait="+longPoll.String()+"&after="+strconv.FormatUint(revision, 10))
		now := time.Now()
		if err != nil {
			return // it has ended, or we no longer follow
		}
		var status struct {
			State    string
			Revision uint64
		}
		if json.Unmarshal(body, &status) != nil {
			return
		}
		revision = status.Revision
		s.mu.Lock()
		s.status = status.State
		if s.answered.IsZero() {
			s.answered = now
		}
		if s.led.IsZero() && code == http.StatusOK {
			s.led = now
		}
		s.mu.Unlock()
		if code == http.StatusOK && !leading {
			lead(now)
		}
		leading = code == http.StatusOK
	}
}

func (s *sidecar) get(ctx context.Context, url string) (code int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := s.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, bytes.TrimSpace(body), err
}

// until waits for a condition on what is guarded by mu.
func (s *sidecar) until(ctx context.Context, what string, condition func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		holds, line := condition(), s.lastLine
		s.mu.Unlock()
		if holds {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.ended:
			return fmt.Errorf("the sidecar has ended before it %s: %s", what, line)
		case <-ctx.Done():
			return fmt.Errorf("the sidecar is not known to have reached that it %s: %w; its last line: %s", what, ctx.Err(), line)
		}
	}
}

func (s *sidecar) ready(ctx context.Context) error {
	return s.until(ctx, "stands by", func() bool { return s.status == "standby" && s.hinted })
}

func (s *sidecar) resign(ctx context.Context) (ending, error) {
	asked := time.Now()
	s.signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-ctx.Done():
		return ending{}, ctx.Err()
	}
	s.close()
	if s.released.IsZero() {
		return ending{}, fmt.Errorf("no release in the sidecar's log; its last line: %s", s.lastLine)
	}
	return ending{asked, s.released}, nil
}

func (s *sidecar) crash(context.Context) (ending, error) {
	asked := time.Now()
	s.close()
	return ending{asked, s.held.Add(s.lease)}, nil
}

// close kills the process and waits for all that followed it; its log has then been read to the end.
func (s *sidecar) close() {
	s.kill()
	if s.unfollow != nil {
		s.unfollow()
	}
	s.done.Wait()
	s.client.CloseIdleConnections()
}
