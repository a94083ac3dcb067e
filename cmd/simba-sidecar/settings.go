package main

import "time"

// settings are the values of the flags of `simba-sidecar` and `simba-sidecar run`.
type settings struct {
	*flags

	mutex, name                           string
	backend, backendFile                  string
	passwordFile                          string
	tlsCA, tlsCert, tlsKey, tlsServerName string
	ttl, transition, stopTimeout          time.Duration
	listen, adminListen, dir              string
	observe, failFast, printConfig        bool
	logLevel, logFormat                   string
}

const off = "off" // the value of a listener that is not wanted

// serveSettings returns the settings of the sidecar.
func serveSettings() *settings {
	s := &settings{}
	contend := s.contendGroup()
	contend.BoolVar(&s.observe, "observe", false, "only follow who leads, never contend")

	publish := s.publishGroup(":4040", "127.0.0.1:4041")
	publish.StringVar(&s.dir, "dir", "", "also write status.json and the file leader into this `directory`, shared with the application; a sidecar that is killed and starts again in it goes on with its term")

	s.flags = newFlags(contend, s.storeGroup(), s.timingGroup("how long files may take to say that this process no longer leads, before the mutex is given up regardless"), publish, s.operationGroup())
	return s
}

// runSettings returns the settings of `run`. Its command is what follows the leadership, so it has no
// files; and it lives only as long as its command, so it has nothing to observe.
func runSettings() *settings {
	s := &settings{}
	s.flags = newFlags(s.contendGroup(), s.storeGroup(), s.timingGroup("how long CMD gets to end after TERM before it is killed"), s.publishGroup(off, off), s.operationGroup())
	return s
}

func (s *settings) contendGroup() group {
	g := newGroup("What to contend for")
	g.StringVar(&s.mutex, "mutex", "", "`name` of the mutex, the same in all contenders (required)")
	g.StringVar(&s.name, "name", "", "readable part of this process's identity (default $POD_NAME or the host's name)")
	return g
}

func (s *settings) storeGroup() group {
	g := newGroup("Where the mutex is")
	g.StringVar(&s.backend, "backend", "", "`URL` of the store (required): local:/some/dir or mysql://user@host:3306/database; a password is refused here, since process lists show it, but may stand in SIMBA_BACKEND")
	g.StringVar(&s.backendFile, "backend-file", "", "`file` that holds the URL, with its password")
	g.StringVar(&s.passwordFile, "password-file", "", "`file` that holds the password; SIMBA_PASSWORD holds the password itself")
	g.StringVar(&s.tlsCA, "tls-ca", "", "PEM `file` of the authorities that may sign the store's certificate")
	g.StringVar(&s.tlsCert, "tls-cert", "", "PEM `file` of the certificate that we show to the store")
	g.StringVar(&s.tlsKey, "tls-key", "", "PEM `file` of that certificate's key")
	g.StringVar(&s.tlsServerName, "tls-server-name", "", "`name` in the store's certificate, if it is not the URL's host")
	return g
}

func (s *settings) timingGroup(stopTimeout string) group {
	g := newGroup("How long")
	g.DurationVar(&s.ttl, "ttl", 10*time.Second, "how long a leader may act after its last good call to the store; 1s or more")
	g.DurationVar(&s.transition, "transition", 6*time.Second, "how much longer everybody else waits, the margin for clocks and pauses; 500ms or more, and a tenth of ttl or more")
	g.DurationVar(&s.stopTimeout, "stop-timeout", 5*time.Second, stopTimeout)
	return g
}

func (s *settings) publishGroup(listen, adminListen string) group {
	g := newGroup("Whom to tell")
	g.StringVar(&s.listen, "listen", listen, "`address` that answers /leader, /, /livez, /readyz and /metrics, or off")
	g.StringVar(&s.adminListen, "admin-listen", adminListen, "loopback `address` that takes POST /step-down and /quit, or off")
	return g
}

func (s *settings) operationGroup() group {
	g := newGroup("How to run")
	g.BoolVar(&s.failFast, "fail-fast", false, "exit when the store refuses the first call, instead of trying again")
	g.StringVar(&s.logLevel, "log-level", "info", "least `level` that is logged: debug, info, warn or error")
	g.StringVar(&s.logFormat, "log-format", "json", "`format` of the log on standard error: json or text")
	g.BoolVar(&s.printConfig, "print-config", false, "print the effective configuration, secrets masked, and exit")
	return g
}
