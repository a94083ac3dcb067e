package main

import (
	"fmt"
	"os"
	"strings"
)

// source is one of several places that can give a setting. It is read anew whenever the setting is
// needed, so that a file that was rotated takes effect.
type source struct {
	origin string // the flag or variable
	read   func() (string, error)
}

// fileSource reads a file's text without its last line break.
func fileSource(origin, path string) source {
	return source{origin, func() (string, error) {
		text, err := os.ReadFile(path) //nolint:gosec // the user names the file
		if err != nil {
			return "", fmt.Errorf("%s: %w", origin, err)
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
	}}
}

func fixedSource(origin, value string) source {
	return source{origin, func() (string, error) { return value, nil }}
}

// choose returns the source that counts, a flag before the environment, or nil if there is none. Two that
// count the same are a mistake.
func choose(what string, sources ...source) (*source, error) {
	var best *source
	for _, s := range sources {
		switch {
		case best == nil, isFlag(s.origin) && !isFlag(best.origin):
			best = &s
		case isFlag(s.origin) == isFlag(best.origin):
			return nil, fmt.Errorf("%s and %s both give %s: keep one of them", best.origin, s.origin, what)
		}
	}
	return best, nil
}

func isFlag(origin string) bool { return strings.HasPrefix(origin, "--") }
