package main

import (
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const (
	envPrefix   = "SIMBA_"
	envPassword = "SIMBA_PASSWORD" // no flag: every user of the machine could read it in the process list
	envBackend  = "SIMBA_BACKEND"

	// What `run` sets for its command, beside SIMBA_MUTEX.
	envToken  = "SIMBA_TOKEN"
	envHolder = "SIMBA_HOLDER"
	envMutex  = "SIMBA_MUTEX"
)

// environ is a process's environment. A variable that is empty counts as not set, because templates
// often leave `value: ""` behind.
type environ map[string]string

func newEnviron(entries []string) environ {
	env := make(environ, len(entries))
	for _, entry := range entries {
		if name, value, _ := strings.Cut(entry, "="); value != "" {
			env[name] = value
		}
	}
	return env
}

// twin returns the environment variable of a flag.
func twin(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// warnUnknown logs each SIMBA_* variable that nothing reads.
func (p process) warnUnknown(log *slog.Logger) {
	known := []string{envPassword}
	for _, f := range []*flags{serveSettings().flags, runSettings().flags, newCheckSettings().flags, newSchemaSettings().flags} {
		f.all.VisitAll(func(flag *pflag.Flag) { known = append(known, twin(flag.Name)) })
	}
	for _, name := range p.env.unknown(known) {
		log.Warn("unknown environment variable ignored", "variable", name, "nearest", nearest(name, known))
	}
}

// unknown returns the SIMBA_* variables that nothing reads, sorted: most likely typing errors.
func (env environ) unknown(known []string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) && !injected(name) {
			names = append(names, name)
		}
	}
	return names
}

// injected reports whether a SIMBA_* variable is not meant for us: Kubernetes adds some to every container
// for each Service whose name begins with "simba", `run` sets some, and tests have their own.
func injected(name string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") ||
		strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_") ||
		strings.HasPrefix(name, "SIMBA_TEST_") ||
		name == envToken || name == envHolder
}
