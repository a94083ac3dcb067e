package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// printed returns the rows of --print-config: the value and the origin of each setting.
func printed(t *testing.T, env []string, args ...string) map[string][2]string {
	t.Helper()
	code, stdout, stderr := call(t, env, append(args, "--print-config")...)
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	rows := map[string][2]string{}
	for line := range strings.Lines(stdout) {
		fields := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1)
		if len(fields) != 3 {
			t.Fatalf("not three columns: %q", line)
		}
		rows[fields[0]] = [2]string{fields[1], fields[2]}
	}
	return rows
}

// samples has a value for every flag that differs from its default.
func samples(t *testing.T) map[string]string {
	dir := t.TempDir()
	ca, cert, key := certificates(t)
	return map[string]string{
		"mutex": "other", "name": "web-7", "observe": "true",
		"backend":       "mysql://simba@db:3306/app",
		"backend-file":  writeFile(t, filepath.Join(dir, "url"), "mysql://simba@db:3306/app\n"),
		"password-file": writeFile(t, filepath.Join(dir, "password"), "pw\n"),
		"tls-ca":        ca, "tls-cert": cert, "tls-key": key, "tls-server-name": "db.example",
		"ttl": "20s", "transition": "7s", "stop-timeout": "9s",
		"listen": "127.0.0.1:1234", "admin-listen": "off", "dir": dir,
		"fail-fast": "true", "log-level": "debug", "log-format": "text",
	}
}

func TestEveryFlagAndItsVariable(t *testing.T) {
	t.Parallel()
	samples := samples(t)
	for command, s := range map[string]*settings{"": serveSettings(), "run": runSettings()} {
		s.all.VisitAll(func(flag *pflag.Flag) {
			if flag.Name == "print-config" {
				return
			}
			t.Run(command+"/"+flag.Name, func(t *testing.T) {
				t.Parallel()
				sample, ok := samples[flag.Name]
				if !ok {
					t.Fatal("the test has no value for it")
				}
				// What it needs beside it to be a valid configuration.
				settings := map[string]string{"mutex": "m", "backend": "mysql://simba@db/app"}
				switch flag.Name {
				case "backend-file":
					delete(settings, "backend")
				case "tls-cert":
					settings["tls-key"] = samples["tls-key"]
				case "tls-key":
					settings["tls-cert"] = samples["tls-cert"]
				}
				delete(settings, flag.Name)
				var args []string
				if command != "" {
					args = append(args, command)
				}
				for _, name := range slices.Sorted(maps.Keys(settings)) {
					args = append(args, "--"+name, settings[name])
				}
				row, shown := flag.Name, sample
				if flag.Name == "backend-file" {
					row, shown = "backend", "mysql://simba@db:3306/app"
				}
				variable := twin(flag.Name)
				for _, c := range []struct {
					what   string
					env    []string
					args   []string
					origin string
				}{
					{"variable", []string{variable + "=" + sample}, args, variable},
					{"flag", nil, append(slices.Clip(args), "--"+flag.Name+"="+sample), "--" + flag.Name},
					{"flag before variable", []string{variable + "=nonsense"}, append(slices.Clip(args), "--"+flag.Name+"="+sample), "--" + flag.Name},
				} {
					want := [2]string{shown, c.origin}
					if diff := cmp.Diff(want, printed(t, c.env, c.args...)[row]); diff != "" {
						t.Errorf("%s (-want +got):\n%s", c.what, diff)
					}
				}
				if origin := printed(t, []string{variable + "="}, append(args, required(flag.Name, sample)...)...)[row][1]; strings.HasPrefix(origin, "SIMBA_") {
					t.Errorf("an empty %s counts as %s", variable, origin)
				}
			})
		})
	}
}

// required gives the flags that have to be given.
func required(name, value string) []string {
	switch name {
	case "mutex", "backend", "backend-file", "tls-cert", "tls-key":
		return []string{"--" + name, value}
	}
	return nil
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"", "run"} {
		args := []string{"--mutex", "m", "--backend", "mysql://simba@db/app", "--print-config"}
		name := "serve"
		if command != "" {
			args, name = append([]string{command}, args...), command
		}
		_, stdout, _ := call(t, []string{"POD_NAME=web-0"}, args...)
		golden(t, "defaults-"+name+".golden", stdout)
	}
}

func TestPrintConfigMasksSecrets(t *testing.T) {
	t.Parallel()
	file := writeFile(t, filepath.Join(t.TempDir(), "url"), "mysql://simba:secret@db/app")
	for origin, c := range map[string]struct{ env, args []string }{
		"SIMBA_BACKEND":  {[]string{"SIMBA_BACKEND=mysql://simba:secret@db/app"}, nil},
		"--backend-file": {nil, []string{"--backend-file", file}},
		"--backend":      {[]string{"SIMBA_PASSWORD=secret"}, []string{"--backend", "mysql://simba@db/app"}},
	} {
		rows := printed(t, c.env, append(c.args, "--mutex", "m")...)
		if diff := cmp.Diff([2]string{"mysql://simba:xxxxx@db/app", origin}, rows["backend"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", origin, diff)
		}
		if text := fmt.Sprint(rows); strings.Contains(text, "secret") {
			t.Errorf("%s: shows the password: %s", origin, text)
		}
	}
	// Beside a mistake too.
	if _, stdout, stderr := call(t, []string{"SIMBA_BACKEND=mysql://simba:sec/ret@db/app"}, "--print-config"); strings.Contains(stdout+stderr, "sec/ret") || !strings.Contains(stdout, "transition") {
		t.Errorf("stdout %s, stderr %s", stdout, stderr)
	}
}

// TestMistakes shows what each mistake is answered with. All of a command's mistakes come at once.
func TestMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string { return writeFile(t, filepath.Join(dir, name), text) }
	ca, cert, key := certificates(t)
	_, otherCert, _ := certificates(t)
	mysql := []string{"--mutex", "m", "--backend", "mysql://simba@db/app"}
	local := []string{"--mutex", "m", "--backend", "local:" + dir}
	cases := []struct {
		name string
		env  []string
		args []string
	}{
		{"nothing given", nil, nil},
		{"everything wrong", []string{"SIMBA_STOP_TIMEOUT=5", "SIMBA_LOG_LEVEL=loud"}, []string{
			"--mutx", "m", "--ttl", "10", "--transition", "1ms", "--listen", "4040", "--admin-listen", "0.0.0.0:4041",
			"--observe=maybe", "--log-format", "xml", "--dir", filepath.Join(dir, "none"), "run", "--version", "-x", "--name"}},
		{"in variables", []string{"SIMBA_TTL=10", "SIMBA_TRANSITION=1ms", "SIMBA_LISTEN=4040", "SIMBA_ADMIN_LISTEN=:4041", "SIMBA_LOG_FORMAT=xml", "SIMBA_DIR=" + filepath.Join(dir, "none")}, mysql},
		{"in Kubernetes", []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}, []string{"--mutex", "m"}},
		{"mutex too long", nil, []string{"--mutex", strings.Repeat("m", 67), "--backend", "mysql://simba@db/app"}},
		{"mutex blank", nil, []string{"--mutex", "  ", "--backend", "mysql://simba@db/app"}},
		{"lease too short", nil, append(slices.Clone(mysql), "--ttl", "1ms", "--transition", "1ms", "--stop-timeout", "0s")},
		{"password in flag", nil, []string{"--mutex", "m", "--backend", "mysql://simba:secret@db/app"}},
		{"two stores", nil, append(slices.Clone(mysql), "--backend-file", file("url", "mysql://simba@db/app"))},
		{"two stores in variables", []string{"SIMBA_BACKEND=mysql://simba@db/app", "SIMBA_BACKEND_FILE=" + file("url2", "mysql://simba@db/app")}, []string{"--mutex", "m"}},
		{"two passwords", []string{"SIMBA_PASSWORD=secret", "SIMBA_BACKEND=mysql://simba:secret@db/app"}, []string{"--mutex", "m"}},
		{"two passwords in files", nil, []string{"--mutex", "m", "--backend-file", file("url3", "mysql://simba:secret@db/app"), "--password-file", file("password", "secret")}},
		{"password with special characters", []string{"SIMBA_BACKEND=mysql://simba:sec/ret@db/app"}, []string{"--mutex", "m"}},
		{"no such files", nil, append(slices.Clone(mysql), "--password-file", filepath.Join(dir, "p"), "--tls-ca", filepath.Join(dir, "ca"), "--tls-cert", filepath.Join(dir, "c"), "--tls-key", filepath.Join(dir, "k"))},
		{"no such backend file", nil, []string{"--mutex", "m", "--backend-file", filepath.Join(dir, "b")}},
		{"empty backend file", nil, []string{"--mutex", "m", "--backend-file", file("empty", "")}},
		{"certificate without key", nil, append(slices.Clone(mysql), "--tls-cert", cert)},
		{"key without certificate", nil, append(slices.Clone(mysql), "--tls-key", key)},
		{"another certificate's key", nil, append(slices.Clone(mysql), "--tls-cert", otherCert, "--tls-key", key)},
		{"no certificate in file", nil, append(slices.Clone(mysql), "--tls-ca", file("text", "hello"))},
		{"secrets for a directory", nil, append(slices.Clone(local), "--password-file", file("password2", "secret"), "--tls-ca", ca, "--tls-server-name", "db")},
		{"unknown scheme", nil, []string{"--mutex", "m", "--backend", "mysq://db/app"}},
		{"later backend", nil, []string{"--mutex", "m", "--backend", "kubernetes:"}},
		{"relative directory", nil, []string{"--mutex", "m", "--backend", "local:here"}},
		{"unknown parameter, no user", nil, []string{"--mutex", "m", "--backend", "mysql://db/app?hintz=off"}},
		{"flag of a later version", nil, append(slices.Clone(mysql), "--pod-label")},
		{"single dash", nil, []string{"-mutex", "m", "--backend", "mysql://simba@db/app"}},
		{"command behind flags", nil, append(slices.Clone(mysql), "run", "--", "true")},
		{"unknown command", nil, []string{"chekc"}},
		{"run without command", nil, append([]string{"run"}, mysql...)},
		{"run without dashes", nil, append(append([]string{"run"}, mysql...), "sleep", "1")},
		{"run with a flag of the sidecar", nil, append(append([]string{"run"}, mysql...), "--observe", "--dir", dir, "--", "true")},
		{"run with a bad configuration", nil, []string{"run", "--ttl", "1", "--", "true"}},
		{"check two things", nil, []string{"check", "--url", "http://127.0.0.1:1", "--dir", dir}},
		{"check no URL", nil, []string{"check", "--url", "localhost:4040"}},
		{"check with neither", []string{"SIMBA_LISTEN=off"}, []string{"check"}},
		{"check with an argument", nil, []string{"check", "http://127.0.0.1:1"}},
		{"schema of nothing", nil, []string{"schema"}},
		{"schema of something else", nil, []string{"schema", "oracle"}},
		{"version of something", nil, []string{"version", "mysql"}},
		{"help about nothing", nil, []string{"help", "rum"}},
	}
	var all strings.Builder
	for _, c := range cases {
		code, stdout, stderr := call(t, append(c.env, "POD_NAME=web-0"), c.args...)
		if code == 0 || stdout != "" || stderr == "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q", c.name, code, stdout, stderr)
		}
		if strings.Contains(stderr, "secret") || strings.Contains(stderr, "sec/ret") {
			t.Errorf("%s: shows the password:\n%s", c.name, stderr)
		}
		fmt.Fprintf(&all, "# %s: exit code %d\n%s\n", c.name, code, strings.ReplaceAll(stderr, "simba-sidecar: ", ""))
	}
	text := all.String()
	for path, name := range map[string]string{dir: "DIR", filepath.Dir(ca): "CERTS", filepath.Dir(otherCert): "OTHER"} {
		text = strings.ReplaceAll(text, path, name)
	}
	golden(t, "mistakes.golden", text)
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"", "run", "check", "schema"} {
		name, args := command, []string{command, "--help"}
		if command == "" {
			name, args = "serve", []string{"--help"}
		}
		code, stdout, stderr := call(t, nil, args...)
		if code != 0 || stderr != "" {
			t.Errorf("%s: code %d, stderr %q", name, code, stderr)
		}
		golden(t, "help-"+name+".golden", stdout)
		for line := range strings.Lines(stdout) {
			if len(line) > helpWidth+1 {
				t.Errorf("%s: wider than %d columns: %s", name, helpWidth, line)
			}
		}
		if _, other, _ := call(t, nil, "help", command); other != stdout {
			t.Errorf("help %s says something else", name)
		}
	}
	if code, stdout, _ := call(t, nil, "--ttl", "nonsense", "-h"); code != 0 || !strings.HasPrefix(stdout, "simba-sidecar makes") {
		t.Errorf("-h beside a mistake: code %d, stdout %q", code, stdout)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, stdout, _ := call(t, nil, "version")
	if code != 0 || !regexp.MustCompile(`^simba-sidecar dev \(commit unknown, go1\..*\)\n$`).MatchString(stdout) {
		t.Errorf("code %d, stdout %q", code, stdout)
	}
}

func TestSchemaPrintsTheTable(t *testing.T) {
	t.Parallel()
	code, stdout, _ := call(t, nil, "schema", "mysql", "--table", "my_locks")
	if code != 0 || !strings.Contains(strings.ToLower(stdout), "create table") || !strings.Contains(stdout, "my_locks") {
		t.Errorf("code %d, stdout:\n%s", code, stdout)
	}
}
