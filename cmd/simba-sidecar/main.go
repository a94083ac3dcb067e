// Command simba-sidecar contends for a named mutex in a store that the team already runs, and tells the
// application beside it, over HTTP and in files, whether this process leads.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/pflag"
)

// Set by the linker (see the Makefile); a plain `go build` leaves them.
var (
	version = "dev"
	commit  = "unknown"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// process is what a command gets from the operating system.
type process struct {
	args           []string // without the program's and the command's name
	environment    []string
	env            environ // environment by name
	stdout, stderr io.Writer
}

// run does what args ask for and returns the exit code.
func run(ctx context.Context, args, environment []string, stdout, stderr io.Writer) int {
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	p := process{args, environment, newEnviron(environment), stdout, stderr}

	var err error
	switch name {
	case "":
		err = serve(ctx, p)
	case "run":
		err = runCommand(ctx, p)
	case "check":
		err = check(ctx, p)
	case "schema":
		err = schema(p)
	case "version":
		err = printVersion(p)
	case "help":
		err = help(p)
	default:
		err = usage("", fmt.Errorf("unknown command %q%s", name, suggest(name, commands())))
	}
	return report(err, stderr)
}

// commands returns the names that the first argument may have.
func commands() []string { return []string{"run", "check", "schema", "version", "help"} }

// Exit codes. `run` has those of env(1) for its own failures, so that they differ from its command's.
const (
	exitFailure = 1
	exitUsage   = 2

	exitLost        = 124
	exitRunFailure  = 125
	exitCannotRun   = 126
	exitNotFound    = 127
	exitSignalBased = 128 // plus the signal's number
)

// exitError is an error that knows the exit code it deserves. Without err there is nothing to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage returns all mistakes that were made in calling a command ("" for the sidecar itself).
func usage(command string, mistakes ...error) error {
	var text strings.Builder
	for _, mistake := range mistakes {
		fmt.Fprintf(&text, "%v\n", mistake)
	}
	fmt.Fprintf(&text, "run \"%s --help\" for all settings", strings.TrimSpace("simba-sidecar "+command))
	code := exitUsage
	if command == "run" {
		code = exitRunFailure
	}
	return &exitError{code, errors.New(text.String())}
}

// report tells the user about err and returns its exit code.
func report(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	coded := &exitError{exitFailure, err}
	errors.As(err, &coded)
	if coded.err != nil {
		for line := range strings.Lines(coded.err.Error()) {
			_, _ = fmt.Fprintf(stderr, "simba-sidecar: %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	return coded.code
}

func printVersion(p process) error {
	if len(p.args) > 0 {
		return usage("", fmt.Errorf("version takes no arguments, got %q", p.args))
	}
	_, err := fmt.Fprintf(p.stdout, "simba-sidecar %s (commit %s, %s)\n", version, commit, runtime.Version())
	return err
}
