package mysql

import "strings"

// now is the database's clock as an integer: milliseconds since 1970 at the start of the statement. Before
// MySQL 8.0.28 it ends in January 2038 and is 0 from then on, which no statement takes for a time.
const now = "cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)"

// owned compares owner_id byte by byte: a column's collation may ignore case, accents or trailing spaces.
const owned = "cast(convert(owner_id using utf8mb4) as binary) = cast(? as binary)"

// statements are the texts for one table.
type statements struct {
	table   string // quoted
	read    string // mutex
	create  string // mutex
	acquire string // seen token, ttl, lease, identity, mutex
	renew   string // ttl, lease, mutex, identity, token
	release string // mutex, identity, token, token
}

func newStatements(table string) statements {
	table = quote(table)
	text := strings.NewReplacer("$table", table, "$now", now, "$owned", owned).Replace
	return statements{
		table: table,
		read:  text("select mutex, owner_id, transition_at, fencing_token, $now from $table where mutex = ?"),
		// The clock as the first token: tokens go on growing if the row was deleted.
		create: text("insert into $table (mutex, acquired_at, ttl_at, transition_at, owner_id, version, fencing_token)" +
			" values (?, 0, 0, 0, '', 0, $now)"),
		// SET is evaluated from left to right with values that have already changed. The token comes first,
		// and no assignment reads a column that an earlier one wrote.
		acquire: text("update $table set fencing_token = last_insert_id(greatest(fencing_token, ?) + 1)," +
			" acquired_at = $now, ttl_at = $now + ?, transition_at = $now + ?, owner_id = ?, version = version + 1" +
			" where mutex = ? and transition_at < $now"),
		// GREATEST: a renewal that was given up may execute after a newer one.
		renew: text("update $table set ttl_at = greatest(ttl_at, $now + ?), transition_at = greatest(transition_at, $now + ?)" +
			" where mutex = ? and $owned and fencing_token = ? and transition_at > $now and $now > 0"),
		release: text("update $table set acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '', version = version + 1" +
			" where mutex = ? and $owned and (? = 0 or fencing_token = ?)"),
	}
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
