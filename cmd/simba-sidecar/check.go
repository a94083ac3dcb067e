package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/simba-sidecar/simba-sidecar/pkg/sinks"
)

// Exit codes of check.
const (
	exitLeading    = 0
	exitNotLeading = 1
	exitCannotTell = 2
)

// checkTimeout is shorter than the second that Kubernetes gives a probe by default, in which the process
// has to be started too.
const checkTimeout = 800 * time.Millisecond

// checkSettings are the flags of `check`.
type checkSettings struct {
	*flags
	url, dir string
}

func newCheckSettings() *checkSettings {
	s := &checkSettings{}
	g := newGroup("What to ask")
	g.StringVar(&s.url, "url", "", "the sidecar's `URL`, such as http://127.0.0.1:4040")
	g.StringVar(&s.dir, "dir", "", "the `directory` in which the sidecar keeps its files")
	s.flags = newFlags(g)
	return s
}

// check tells by its exit code whether the sidecar beside it leads.
func check(ctx context.Context, p process) error {
	s := newCheckSettings()
	_, mistakes := s.parse(p.args, p.env)
	if wantsHelp(mistakes) {
		return printHelp(p.stdout, "check")
	}
	ask, err := s.target(p.env)
	if err != nil {
		mistakes = append(mistakes, err)
	}
	if len(mistakes) > 0 {
		return usage("check", mistakes...)
	}

	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	type answer struct {
		leading bool
		err     error
	}
	answers := make(chan answer, 1) // a file system that hangs ignores ctx
	go func() {
		leading, err := ask(ctx)
		answers <- answer{leading, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	switch {
	case errors.Is(a.err, context.DeadlineExceeded):
		return &exitError{exitCannotTell, fmt.Errorf("cannot tell: no answer within %v", checkTimeout)}
	case a.err != nil:
		return &exitError{exitCannotTell, fmt.Errorf("cannot tell: %w", a.err)}
	case a.leading:
		_, err := fmt.Fprintln(p.stdout, "leading")
		return err
	}
	_, _ = fmt.Fprintln(p.stdout, "not leading")
	return &exitError{code: exitNotLeading}
}

// target returns how to ask the sidecar that is meant: what a flag or a variable of ours names, or else
// where the sidecar's own variables put it. Its HTTP answer comes before its files, as it needs no clock.
func (s *checkSettings) target(env environ) (func(context.Context) (bool, error), error) {
	askFiles := func(context.Context) (bool, error) { return sinks.CheckDir(s.dir, time.Now()) }
	listen := env[twin("listen")]
	switch urlFlag, dirFlag := isFlag(s.origin["url"]), isFlag(s.origin["dir"]); {
	case urlFlag && dirFlag:
		return nil, errors.New("--url and --dir both say what to ask: keep one of them")
	case dirFlag:
		return askFiles, nil
	case s.url != "":
		return askURL(s.label("url"), s.url)
	case s.dir != "" && (listen == "" || listen == off):
		return askFiles, nil
	case listen == off:
		return nil, errors.New("SIMBA_LISTEN is off and there is no SIMBA_DIR: say what to ask with --url or --dir")
	}
	return askURL(twin("listen"), "http://"+loopback(cmp.Or(listen, ":4040")))
}

// loopback returns where a listener of this machine is reached.
func loopback(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

func askURL(origin, text string) (func(context.Context) (bool, error), error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s %q is not a URL: use one such as http://127.0.0.1:4040", origin, text)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/leader"
	}
	return func(ctx context.Context) (bool, error) { return askHTTP(ctx, u.String()) }, nil
}

// askHTTP believes a status only together with the sidecar's own body: a proxy in between, or another
// server on that port, answers 503 as well.
func askHTTP(ctx context.Context, address string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, err
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy, whatever the environment says
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	var body struct {
		Leader *bool `json:"leader"`
	}
	const plenty = 1 << 16
	err = json.NewDecoder(io.LimitReader(response.Body, plenty)).Decode(&body)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	switch {
	case err != nil || body.Leader == nil:
	case response.StatusCode == http.StatusOK && *body.Leader:
		return true, nil
	case response.StatusCode == http.StatusServiceUnavailable && !*body.Leader:
		return false, nil
	}
	return false, fmt.Errorf("%s answered %s, not as a sidecar does: is another server there?", address, response.Status)
}
