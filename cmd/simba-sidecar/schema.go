package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/simba-sidecar/simba-sidecar/pkg/backends/mysql"
)

// schemaSettings are the flags of `schema`.
type schemaSettings struct {
	*flags
	table string
}

func newSchemaSettings() *schemaSettings {
	s := &schemaSettings{}
	g := newGroup("What it is called")
	g.StringVar(&s.table, "table", mysql.DefaultTable, "`name` of the table, as in the URL's ?table=")
	s.flags = newFlags(g)
	return s
}

// schema prints the SQL that makes a store's table, for those whose account may not make one.
func schema(p process) error {
	s := newSchemaSettings()
	args := slices.Clone(p.args)
	store := slices.Index(args, "mysql")
	if store >= 0 {
		args = slices.Delete(args, store, store+1)
	}
	_, mistakes := s.parse(args, p.env)
	if wantsHelp(mistakes) {
		return printHelp(p.stdout, "schema")
	}
	if store < 0 {
		mistakes = append(mistakes, fmt.Errorf("schema needs the kind of store: simba-sidecar schema mysql"))
	}
	if len(mistakes) > 0 {
		return usage("schema", mistakes...)
	}
	_, err := io.WriteString(p.stdout, mysql.Schema(s.table))
	return err
}
