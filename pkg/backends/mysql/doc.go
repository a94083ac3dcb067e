// Package mysql keeps one mutex as one row of a table in MySQL or MariaDB. Contenders written in Java
// with the Simba library use the same table with the same meaning of its columns, so both exclude each
// other.
//
// # The row
//
// The holder is owner_id until transition_at. It acts until ttl_at, which only JVM peers read: here the
// deadline is the Elector's own. All times are milliseconds of the database's clock as it was at the start
// of the statement; no contender's clock ever enters the row. fencing_token is the token; it grows with
// every take-over and outlives a release. version counts changes and decides nothing.
//
// Every change is one conditional UPDATE in autocommit mode: the server's row lock makes it atomic, its
// count of matched rows is the answer, and the new token comes back in the answer too, as the statement's
// last insert id. There is no transaction that a lost connection could leave open, and no second statement
// that a proxy could send to a replica. What a plain SELECT says is only ever a reason to try an UPDATE.
//
// # Hints
//
// MySQL cannot notify, but it has named locks, and waiting for one costs nothing. Two per mutex form a
// queue that wakes exactly one contender when the leader gives up:
//
//   - the queue's lock: all standbys but one wait for it. Whoever has it is the head of the queue.
//   - the leader's lock: the leader has it, and the head waits for it.
//
// The head that gets the leader's lock tells its contender to look at the row. If that takes the row, it
// lets go of the queue's lock, and the next standby becomes the head. A leader that took the row without
// waiting in the queue goes straight for its lock. Locks are only ever awaited in the order queue, leader,
// so they cannot deadlock.
//
// A row can be held by somebody who does not have the leader's lock: a JVM, a contender with hints=off, or
// a leader whose connection broke. The head then looks four times a second, and between two looks it lets
// go of the leader's lock, so that a leader who wants it gets it, after which the head simply waits again.
//
// The locks are hints and never the truth. They are per server, end with their connection, and may be
// forbidden; without them everything works by polling.
//
// # Connections
//
// With hints, every contender has one connection: a standby's waits for a lock, and a leader renews over
// the one that has the lock. A standby reads over a connection that it opens for the purpose. Without
// hints, only the leader stays connected.
package mysql
