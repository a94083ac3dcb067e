package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// row is a line of the table; rows are printed in this order.
type row string

const (
	rowRelease     row = "hand-over, release called → leads, ms"
	rowTerm        row = "hand-over, SIGTERM → leads, ms"
	rowExpired     row = "crash, lease run out → leads, ms"
	rowKill        row = "crash, SIGKILL → leads, ms"
	rowLease       row = "lease, s"
	rowHandOvers   row = "number of hand-overs"
	rowCrashes     row = "number of crashes"
	rowEarly       row = "led before the mutex was free, times"
	rowStartAnswer row = "start → first answer, ms"
	rowStartLead   row = "start → leads a free mutex, ms"
	rowLatency     row = "`/leader`, one connection, ms"
	rowRate        row = "`/leader`, 8 connections, requests/s"
	rowAnonymous   row = "RssAnon, leader / standby, MiB"
	rowRSS         row = "VmRSS, leader / standby, MiB"
	rowCPU         row = "CPU when idle, leader / standby, ms per minute"
	rowStatements  row = "statements per minute, leader / standby"
	rowWrites      row = "of which write, leader / standby"
	rowConnections row = "new connections per minute, leader / standby"
	rowSize        row = "stripped binary, MB"
)

func rows() []row {
	return []row{rowRelease, rowTerm, rowExpired, rowKill, rowLease, rowHandOvers, rowCrashes, rowEarly, rowStartAnswer, rowStartLead, rowLatency, rowRate,
		rowAnonymous, rowRSS, rowCPU, rowStatements, rowWrites, rowConnections, rowSize}
}

// table is what a run has measured.
type table struct {
	title   string
	columns []*column

	mu      sync.Mutex
	remarks []string
}

// column is what was measured of one contender.
type column struct {
	title string

	mu    sync.Mutex
	cells map[row]string
	early int
}

func (t *table) column(title string) *column {
	c := &column{title: title, cells: map[row]string{}}
	t.columns = append(t.columns, c)
	return c
}

func (t *table) remark(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remarks = append(t.remarks, fmt.Sprintf(format, args...))
}

func (c *column) set(r row, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cells[r] = fmt.Sprintf(format, args...)
}

func (c *column) handOver(s series) {
	c.set(rowRelease, "%v", s.fromFree)
	c.set(rowTerm, "%v", s.fromAsked)
	c.set(rowHandOvers, "%d", len(s.fromFree))
	c.addEarly(s)
}

func (c *column) crash(s series, lease time.Duration) {
	c.set(rowExpired, "%v", s.fromFree)
	c.set(rowKill, "%v", s.fromAsked)
	c.set(rowLease, "%g", lease.Seconds())
	c.set(rowCrashes, "%d", len(s.fromFree))
	c.addEarly(s)
}

// addEarly counts what must not be: the other rows have no place for it.
func (c *column) addEarly(s series) {
	c.mu.Lock()
	for _, d := range s.fromFree {
		if d < 0 {
			c.early++
		}
	}
	early := c.early
	c.mu.Unlock()
	c.set(rowEarly, "%d", early)
}

func (c *column) idle(i idle) {
	mib := func(bytes int) float64 { return float64(bytes) / (1 << 20) }
	perMinute := func(share float64) float64 { return share * 60e3 }
	c.set(rowAnonymous, "%.1f / %.1f", mib(i.leader.anonymous), mib(i.standby.anonymous))
	c.set(rowRSS, "%.1f / %.1f", mib(i.leader.rss), mib(i.standby.rss))
	c.set(rowCPU, "%.0f / %.0f", perMinute(i.leader.cpu), perMinute(i.standby.cpu))
	if i.counted {
		c.set(rowStatements, "%.1f / %.1f", i.leader.statements, i.standby.statements)
		c.set(rowWrites, "%.1f / %.1f", i.leader.writes, i.standby.writes)
		c.set(rowConnections, "%.1f / %.1f", i.leader.connections, i.standby.connections)
	}
}

func (t *table) print(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n| |", t.title)
	for _, c := range t.columns {
		fmt.Fprintf(&out, " %s |", c.title)
	}
	fmt.Fprintf(&out, "\n|---|%s\n", strings.Repeat("---|", len(t.columns)))
	for _, r := range rows() {
		fmt.Fprintf(&out, "| %s |", r)
		for _, c := range t.columns {
			cell := c.cells[r]
			if cell == "" {
				cell = "—"
			}
			fmt.Fprintf(&out, " %s |", cell)
		}
		out.WriteString("\n")
	}
	out.WriteString("\nTimes are p50 / p99 / max.\n")
	for _, remark := range t.remarks {
		fmt.Fprintf(&out, "\nRemark: %s\n", remark)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// heading says what is run, when and where, and how busy the machine is with other things.
func heading(args []string) string {
	command := strings.TrimSpace("go run . " + strings.Join(args, " "))
	text, _ := os.ReadFile("/proc/loadavg") // without it, nothing is said
	load, _, _ := strings.Cut(string(text), " ")
	return fmt.Sprintf("Measured on %s with `cd bench && %s`: %s/%s, %d cores, %s, load average %s before the start.",
		time.Now().Format("2 January 2006"), command, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), load)
}
