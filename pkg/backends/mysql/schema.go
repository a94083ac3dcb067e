package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Schema returns the SQL that creates table (DefaultTable if empty), followed by what to run instead if an
// older version of the JVM library has created it; that part is commented out.
func Schema(table string) string {
	if table == "" {
		table = DefaultTable
	}
	table = quote(table)
	return "-- One row per mutex. Contenders create it themselves if their account may.\n" +
		createTable(table) + ";\n\n" +
		"-- A table that the JVM library made before its version 3.3 is upgraded in place. JVMs of all versions\n" +
		"-- go on working with it.\n" +
		"-- " + alterTable(table, addToken, widenOwner, useInnoDB) + ";\n\n" +
		"-- What a contender's account needs:\n" +
		"-- grant select, insert, update on " + table + " to '<user>'@'%';\n"
}

// The parts of the ALTER that an old table may need.
const (
	addToken   = "add column fencing_token bigint unsigned not null default 0"
	widenOwner = "modify column owner_id varchar(128) not null"
	widenMutex = "modify column mutex varchar(66) not null"
	useInnoDB  = "engine = InnoDB"
)

func alterTable(table string, changes ...string) string {
	return "alter table " + table + " " + strings.Join(changes, ", ")
}

// createTable's collation tells names apart that differ in case or accents only.
func createTable(table string) string {
	return "create table if not exists " + table + ` (
  mutex         varchar(66)     not null primary key,
  acquired_at   bigint unsigned not null,
  ttl_at        bigint unsigned not null,
  transition_at bigint unsigned not null,
  owner_id      varchar(128)    not null,
  version       int unsigned    not null,
  fencing_token bigint unsigned not null default 0
) engine = InnoDB default charset = utf8mb4 collate = utf8mb4_bin`
}

// checkTable reports whether the table exists, or what about it is wrong. A table that the account has no
// rights on does not exist as far as it can see.
func (b *Backend) checkTable(ctx context.Context, c *sql.Conn) (exists bool, err error) {
	rows, err := c.QueryContext(ctx, "select c.column_name, coalesce(c.character_maximum_length, 0), coalesce(t.engine, 'none')"+
		" from information_schema.columns c join information_schema.tables t"+
		// Constants for both: MariaDB then opens the one table, and else reads the whole folder for every contender.
		" where c.table_schema = ? and c.table_name = ? and t.table_schema = ? and t.table_name = ?",
		b.target.database, b.target.table, b.target.database, b.target.table)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	columns := map[string]int{}
	engine := ""
	for rows.Next() {
		var name string
		var length int
		if err := rows.Scan(&name, &length, &engine); err != nil {
			return false, err
		}
		columns[strings.ToLower(name)] = length
	}
	if err := rows.Err(); err != nil || len(columns) == 0 {
		return false, err
	}
	return true, b.judgeTable(columns, engine)
}

// judgeTable refuses a table that cannot carry our terms. columns maps names to lengths in characters.
func (b *Backend) judgeTable(columns map[string]int, engine string) error {
	for _, name := range []string{"mutex", "acquired_at", "ttl_at", "transition_at", "owner_id", "version"} {
		if _, ok := columns[name]; !ok {
			return fmt.Errorf("table %s has no column %s, so it is not a table of mutexes: name another with ?table= in the backend's URL",
				b.statements.table, name)
		}
	}
	var wrong, changes []string
	flaw := func(what, change string) { wrong, changes = append(wrong, what), append(changes, change) }
	if _, ok := columns["fencing_token"]; !ok {
		flaw("has no column fencing_token", addToken)
	}
	if n := utf8.RuneCountInString(b.contender.Identity); columns["owner_id"] < n {
		flaw(fmt.Sprintf("has room for %d characters in owner_id and the identity has %d", columns["owner_id"], n), widenOwner)
	}
	if n := utf8.RuneCountInString(b.contender.Mutex); columns["mutex"] < n {
		flaw(fmt.Sprintf("has room for %d characters in mutex and the mutex has %d", columns["mutex"], n), widenMutex)
	}
	if !strings.EqualFold(engine, "InnoDB") {
		flaw(fmt.Sprintf("is not in InnoDB (engine: %s)", engine), useInnoDB)
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("table %s %s: run %s", b.statements.table, strings.Join(wrong, ", and "), alterTable(b.statements.table, changes...))
}

// ensureTable makes sure that the table exists.
func (b *Backend) ensureTable(ctx context.Context, c *sql.Conn) error {
	if b.tableOK {
		return nil
	}
	exists, err := b.checkTable(ctx, c)
	if err == nil && !exists {
		if _, err = c.ExecContext(ctx, createTable(b.statements.table)); err != nil {
			if isRefused(err) {
				err = fmt.Errorf("%w: %w", errMissing, err)
			}
			return err
		}
	}
	b.tableOK = err == nil
	return err
}

// errMissing goes with the server's refusal to create the table.
var errMissing = errors.New("the table is missing, or the account may not see it")

// grant returns the statement that gives the account its rights.
func (b *Backend) grant() string {
	return fmt.Sprintf("grant select, insert, update on %s.%s to %s@'%%'",
		quote(b.target.database), b.statements.table, literal(b.target.user))
}

func literal(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'"
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// createRow inserts the mutex's row. Losing the race to do so is not an error. The session's strict mode
// refuses a name that the column cannot hold; an INSERT IGNORE would store another name.
func (b *Backend) createRow(ctx context.Context, c *sql.Conn) error {
	_, err := c.ExecContext(ctx, b.statements.create, b.contender.Mutex)
	switch {
	case err == nil, isServerError(err, errDuplicateKey):
		return nil
	default:
		return b.aboutName(err)
	}
}

// aboutName says more about an error which means that the column cannot hold the mutex's name.
func (b *Backend) aboutName(err error) error {
	if isServerError(err, errBadString, errTooLong, errCollationMix, errNoConversion) {
		return fmt.Errorf("%w: %w", b.otherName("others"), err)
	}
	return err
}

var errCollision = errors.New("names collide")

// otherName is the error about a name that the table turns into another.
func (b *Backend) otherName(stored string) error {
	return fmt.Errorf("%w: mutex %q cannot be told from %s because of the character set or collation of the column mutex in table %s: "+
		"use a lower-case ASCII name, or %s", errCollision, b.contender.Mutex, stored, b.statements.table, convertTable)
}

const convertTable = "convert the table to character set utf8mb4 with collation utf8mb4_bin"
