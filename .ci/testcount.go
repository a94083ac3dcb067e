// Testcount reads the output of `go test -json`, passes on what a reader wants to see of it (a line for
// each package, the whole output of what failed, each skip) and closes with the number of tests and
// subtests that passed, failed and were skipped. A test that did not end has failed, and a package that fails
// on its own account, such as one that does not compile, counts as a test that did. It fails if any failed or none ran, and, where CI=true,
// if any was skipped.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json` and `go help buildjson`.
type event struct {
	Action, Package, Test, Output, ImportPath string
}

func (e event) name() name { return name{cmp.Or(e.Package, e.ImportPath), e.Test} }

type name struct{ pkg, test string }

func (n name) String() string { return strings.TrimSpace(n.pkg + " " + n.test) }

// count is what was seen so far.
type count struct {
	passed, failed, skipped int
	faulty                  map[string]bool   // packages with a failure that is counted
	output                  map[name][]string // of what has not ended yet
}

func main() {
	c := count{faulty: map[string]bool{}, output: map[name][]string{}}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) == nil:
			c.take(e)
		default: // the go command's own words
			_, _ = os.Stdout.Write(line)
		}
		if err != nil {
			break
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
	if c.failed > 0 || c.passed == 0 || c.skipped > 0 && os.Getenv("CI") == "true" {
		os.Exit(1)
	}
}

func (c *count) take(e event) {
	n := e.name()
	isTest := e.Test != ""
	switch e.Action {
	case "output", "build-output":
		c.output[n] = append(c.output[n], e.Output)
		if !isTest && (strings.HasPrefix(e.Output, "ok ") || strings.HasPrefix(e.Output, "?")) {
			fmt.Print(e.Output)
		}
		return
	case "pass":
		if isTest {
			c.passed++
		}
	case "skip":
		if isTest {
			c.skipped++
			c.show("skipped", n)
		}
	case "build-fail": // its package's failure follows
		c.show("failed", n)
	case "fail":
		if !isTest {
			c.endUnfinished(n.pkg)
		}
		if isTest || !c.faulty[n.pkg] {
			c.failed++
			c.faulty[n.pkg] = true
		}
		c.show("failed", n)
	default:
		return
	}
	delete(c.output, n)
}

func (c *count) show(what string, n name) {
	fmt.Printf("%s: %s\n%s", what, n, strings.Join(c.output[n], ""))
}

// endUnfinished fails the tests that a time-out or an exit of the test program ended.
func (c *count) endUnfinished(pkg string) {
	for n := range c.output {
		if n.pkg == pkg && n.test != "" {
			c.failed++
			c.faulty[pkg] = true
			c.show("unfinished", n)
			delete(c.output, n)
		}
	}
}
