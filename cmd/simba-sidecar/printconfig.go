package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/pflag"
)

// print writes the effective configuration: setting, value, and what it comes from. st is nil where
// the store is configured wrongly; then no part of it is shown, since any may be a password.
func (s *settings) print(w io.Writer, st *store, env environ) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	s.all.VisitAll(func(flag *pflag.Flag) {
		value, origin := flag.Value.String(), cmp.Or(s.origin[flag.Name], "default")
		switch flag.Name {
		case "print-config":
			return
		case "name":
			value = readable(s.name)
		case "backend":
			value, origin = "", "default"
			if st != nil {
				value, origin = st.masked(), st.origin
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", flag.Name, cmp.Or(value, "-"), origin)
	})
	if env[envPassword] != "" {
		fmt.Fprintf(table, "password\txxxxx\t%s\n", envPassword)
	}
	return table.Flush()
}

// masked returns the URL as it may be shown, with a sign that there is a password if there is one.
func (s *store) masked() string {
	u, err := url.Parse(s.url)
	if err != nil || u.User == nil || s.password == nil {
		return s.url
	}
	u.User = url.UserPassword(u.User.Username(), "xxxxx")
	return u.String()
}
