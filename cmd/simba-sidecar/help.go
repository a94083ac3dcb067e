package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// helpWidth fits into a terminal of 100 columns.
const helpWidth = 100

func wantsHelp(mistakes []error) bool {
	return slices.ContainsFunc(mistakes, func(err error) bool { return errors.Is(err, pflag.ErrHelp) })
}

// help is the command for those who do not try --help.
func help(p process) error {
	command := strings.Join(p.args, " ")
	if command != "" && !slices.Contains(commands(), command) {
		return usage("", fmt.Errorf("unknown command %q%s", command, suggest(command, commands())))
	}
	return printHelp(p.stdout, command)
}

func printHelp(w io.Writer, command string) error {
	var text string
	var groups []group
	switch command {
	case "run":
		text, groups = runHelp, runSettings().groups
	case "check":
		text, groups = checkHelp, newCheckSettings().groups
	case "schema":
		text, groups = schemaHelp, newSchemaSettings().groups
	default:
		text, groups = serveHelp, serveSettings().groups
	}
	var flags strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&flags, "%s:\n%s\n", g.title, g.FlagUsagesWrapped(helpWidth))
	}
	_, err := io.WriteString(w, strings.Replace(text, "FLAGS\n", flags.String(), 1))
	return err
}

const serveHelp = `simba-sidecar makes one of many processes the leader, and tells the application beside it.

All contenders name the same mutex in a store that you already run. At most one of them holds it at
a time; when that one stops it hands over within milliseconds, and when it dies another takes over
once its lease (ttl + transition) has run out. The application holds no lock code: it acts while
/leader answers 200, and stops when it answers 503.

Usage:
  simba-sidecar --mutex NAME --backend URL               contend and publish: the sidecar
  simba-sidecar run --mutex NAME --backend URL -- CMD    wait to lead, run CMD, then give up
  simba-sidecar check [--url URL | --dir DIR]            exit 0: leads, 1: does not, 2: cannot tell
  simba-sidecar schema mysql                             print the SQL that makes the table
  simba-sidecar version                                  print version, commit and Go version
  simba-sidecar COMMAND --help                           explain a command

FLAGS
Every flag can be given as an environment variable, SIMBA_TTL for --ttl; a flag comes before its
variable, and an empty variable counts as none. Durations have a unit: 500ms, 10s, 2m. Any of the
--tls flags turns TLS on. Files with secrets and certificates are read again for every connection.

Examples:
  # Three of these on one machine: one leads.
  simba-sidecar --mutex orders --backend local:/tmp/simba --listen 127.0.0.1:4040 --admin-listen off
  curl -i localhost:4040/leader

  # On MySQL or MariaDB, with the password in a file.
  simba-sidecar --mutex orders --backend mysql://simba@db:3306/app --password-file /run/secrets/db

Exit codes: 0 stopped by TERM or INT, 2 wrong usage or configuration, 1 anything else. A second TERM
or INT exits at once with 1.
`

const runHelp = `simba-sidecar run waits until it leads, runs a command, and gives the mutex up when that has ended.

Usage:
  simba-sidecar run --mutex NAME --backend URL [FLAGS] -- CMD [ARG...]

CMD finds SIMBA_TOKEN (the fencing token, larger in every new term), SIMBA_MUTEX and SIMBA_HOLDER in
its environment, and neither SIMBA_BACKEND nor SIMBA_PASSWORD. It runs in a process group of its
own, to which TERM and INT are passed on; what has not ended after --stop-timeout is killed. The
mutex is given up after CMD has ended, and with CMD ends the rest of its group. If leadership is
lost, the group gets TERM and is killed before another contender can lead. What leaves the group
(setsid, daemons) lives on, and so may the group if run itself is killed or stopped: let whatever
CMD writes to check the token.

FLAGS
Every flag can be given as an environment variable, SIMBA_TTL for --ttl; a flag comes before its
variable, and an empty variable counts as none. Durations have a unit: 500ms, 10s, 2m. Any of the
--tls flags turns TLS on. Files with secrets and certificates are read again for every connection.

Examples:
  # Started on many machines, it runs on one.
  simba-sidecar run --mutex nightly --backend mysql://simba@db/app -- /usr/local/bin/nightly --all

Exit codes: CMD's own; 128 + n if signal n ended CMD, or the waiting; 124 leadership was lost;
125 simba-sidecar itself failed; 126 CMD cannot be run; 127 CMD was not found. A second TERM or INT
kills CMD and exits at once.
`

const checkHelp = `simba-sidecar check tells whether the sidecar beside it leads, for exec probes and scripts.

Usage:
  simba-sidecar check [--url URL | --dir DIR]

Without flags it asks where the sidecar's own variables say that it is: SIMBA_LISTEN, or else the
files in SIMBA_DIR, or else http://127.0.0.1:4040. It answers within a second.

FLAGS
Examples:
  simba-sidecar check && ./only-on-the-leader
  simba-sidecar check --dir /run/simba

Exit codes: 0 leads, 1 does not lead, 2 cannot tell.
`

const schemaHelp = `simba-sidecar schema prints the SQL that makes a store's table, or brings an old one up to date.

The sidecar makes the table itself when its account may.

Usage:
  simba-sidecar schema mysql [--table NAME]

FLAGS
Examples:
  simba-sidecar schema mysql | mariadb app
`
