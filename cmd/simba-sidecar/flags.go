package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// group is a part of a command's flags under a title that says what they are for.
type group struct {
	title string
	*pflag.FlagSet
}

func newGroup(title string) group {
	set := pflag.NewFlagSet(title, pflag.ContinueOnError)
	set.SortFlags = false // the order of definition puts what matters first
	return group{title, set}
}

// flags are all flags of a command and where each got its value.
type flags struct {
	groups []group
	all    *pflag.FlagSet
	// origin is what the user has to correct: "--ttl" or "SIMBA_TTL". Flags with their default have none.
	origin map[string]string
}

func newFlags(groups ...group) *flags {
	all := newGroup("").FlagSet
	for _, g := range groups {
		all.AddFlagSet(g.FlagSet)
	}
	all.Usage = func() {}
	// Unknown flags come back as arguments, so that one mistake does not hide the others.
	all.ParseErrorsAllowlist.UnknownFlagsHandling = pflag.PassUnknownFlagToArgs
	return &flags{groups, all, map[string]string{}}
}

// parse sets the flags from args and then, where args say nothing, from the environment. It returns what
// stands behind "--", and all mistakes; the one mistake pflag.ErrHelp means that the user asks for help.
func (f *flags) parse(args []string, env environ) (rest []string, mistakes []error) {
	set := func(flag *pflag.Flag, origin, value string) {
		f.origin[flag.Name] = origin
		if err := f.all.Set(flag.Name, value); err != nil {
			mistakes = append(mistakes, invalid(origin, value, err))
		}
	}
	err := f.all.ParseAll(args, func(flag *pflag.Flag, value string) error {
		set(flag, "--"+flag.Name, value)
		return nil
	})
	var missing *pflag.ValueRequiredError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return nil, []error{pflag.ErrHelp}
	case errors.As(err, &missing):
		name := missing.GetFlag().Name
		f.origin[name] = "--" + name
		mistakes = append(mistakes, fmt.Errorf("--%s needs a value", name))
	case err != nil:
		mistakes = append(mistakes, err)
	}

	own := f.all.Args()
	if dash := f.all.ArgsLenAtDash(); dash >= 0 {
		own, rest = own[:dash], own[dash:]
	}
	mistakes = append(mistakes, f.stray(own)...)

	f.all.VisitAll(func(flag *pflag.Flag) {
		if value := env[twin(flag.Name)]; value != "" && f.origin[flag.Name] == "" {
			set(flag, twin(flag.Name), value)
		}
	})
	return rest, mistakes
}

// stray returns what is wrong with arguments that belong to no flag.
func (f *flags) stray(args []string) (mistakes []error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") {
			mistakes = append(mistakes, fmt.Errorf("unexpected argument %q%s", arg, advice(arg)))
			continue
		}
		name, _, hasValue := strings.Cut(arg, "=")
		mistakes = append(mistakes, fmt.Errorf("unknown flag %s%s", name, f.alternative(strings.TrimLeft(name, "-"))))
		if !hasValue && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++ // the unknown flag's value
		}
	}
	return mistakes
}

func advice(arg string) string {
	if slices.Contains(commands(), arg) {
		return fmt.Sprintf(": a command comes first, as in \"simba-sidecar %s …\"", arg)
	}
	return ""
}

// alternative says what may have been meant by a flag that does not exist.
func (f *flags) alternative(name string) string {
	if slices.Contains(commands(), name) {
		return fmt.Sprintf(": did you mean the command \"simba-sidecar %s\"?", name)
	}
	var known []string
	f.all.VisitAll(func(flag *pflag.Flag) { known = append(known, flag.Name) })
	if best := nearest(name, known); best != "" {
		return fmt.Sprintf(": did you mean --%s?", best)
	}
	return ""
}

// label returns what the user calls a setting: the flag or variable that set it, or else the flag.
func (f *flags) label(name string) string {
	if origin := f.origin[name]; origin != "" {
		return origin
	}
	return "--" + name
}

// invalid returns the mistake of a value that its flag does not take. It leaves the library's words out,
// which name Go functions and have no remedy.
func invalid(origin, value string, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return fmt.Errorf("%s: %w", origin, err)
	}
	remedy := "not a valid value"
	switch bad.GetFlag().Value.Type() {
	case "duration":
		remedy = "use a number with a unit, such as 500ms, 10s or 2m"
	case "bool":
		remedy = "use true or false"
	}
	return fmt.Errorf("%s %q: %s", origin, value, remedy)
}
