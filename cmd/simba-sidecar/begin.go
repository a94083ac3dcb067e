package main

import "log/slog"

// beginning is what serve and run start from.
type beginning struct {
	store   *store
	command []string // what stands behind "--"
	log     *slog.Logger
}

// begin reads the configuration. Where that is all there is to do, for help, mistakes or --print-config,
// it returns the error to end with, which has exit code 0 if all is well. checkCommand says what is wrong
// with the arguments behind "--".
func (s *settings) begin(p process, name string, checkCommand func(command []string) error) (*beginning, error) {
	st, command, mistakes := s.load(p)
	if wantsHelp(mistakes) {
		return nil, endAfter(printHelp(p.stdout, name))
	}
	if s.printConfig {
		if err := s.print(p.stdout, st, p.env); err != nil {
			return nil, err
		}
	} else if err := checkCommand(command); err != nil {
		mistakes = append(mistakes, err)
	}
	if len(mistakes) > 0 {
		return nil, usage(name, mistakes...)
	}
	if s.printConfig {
		return nil, endAfter(nil)
	}
	log, err := s.logger(p.stderr)
	if err != nil {
		return nil, err
	}
	p.warnUnknown(log)
	return &beginning{st, command, log}, nil
}

// endAfter returns err, or the error to end well with.
func endAfter(err error) error {
	if err != nil {
		return err
	}
	return &exitError{code: 0}
}
