package mysql

import (
	"fmt"
	"testing"
	"time"
)

// counters are the server's own.
var counters = []string{"Com_select", "Com_insert", "Com_update", "Com_delete", "Com_do", "Com_begin", "Com_commit",
	"Com_stmt_prepare", "Com_set_option", "Connections"}

func (s *store) counters(t testing.TB) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, name := range counters {
		all[name] = s.status(t, name)
	}
	return all
}

// TestStandbysWriteNothingAndReadOncePerTTL counts with the server's own counters.
func TestStandbysWriteNothingAndReadOncePerTTL(t *testing.T) {
	const windows = 3
	for _, standbys := range []int{1, 10, 200} {
		t.Run(fmt.Sprint(standbys), func(t *testing.T) {
			skipCrowd(t, standbys)
			onOwn(t, manyConnections, func(t *testing.T, s *store) {
				c := contender("leader")
				c.TTL, c.Transition = 3*time.Second, 2*time.Second
				r := newRace()
				r.run(t, s.location(), c)
				leader := r.next(t)
				for i := range standbys {
					c.Identity = fmt.Sprintf("c%d", i)
					r.run(t, s.location(), c)
				}
				r.quiet(t, s, standbys)
				s.root.SetMaxOpenConns(1) // the measuring makes no connections

				token := leader.State().Token
				before, begin, failed := s.counters(t), time.Now(), r.count("observe failed").Load()
				time.Sleep(windows * c.TTL) // the time that is counted
				after, took := s.counters(t), time.Since(begin)
				if state := leader.State(); !state.Leading() || state.Token != token {
					t.Fatalf("the leader has become %+v", state)
				}
				for name := range after {
					after[name] -= before[name]
				}
				t.Logf("%d standbys in %v: %v", standbys, took, after)
				renewals := int(3*took/c.TTL) + 1
				// Whoever got no answer, on a machine this busy, asks again.
				failed = r.count("observe failed").Load() - failed
				reads := int(took/c.TTL)*standbys + standbys + 2*int(failed)
				for name, most := range map[string]int{
					"Com_update": renewals, "Com_select": reads, "Connections": reads, "Com_set_option": reads, "Com_do": 1,
				} {
					if after[name] > most {
						t.Errorf("%s: %d, want at most %d", name, after[name], most)
					}
				}
				for _, name := range []string{"Com_insert", "Com_delete", "Com_begin", "Com_commit", "Com_stmt_prepare"} {
					if after[name] != 0 {
						t.Errorf("%s: %d, want none", name, after[name])
					}
				}
				if n := s.connections(t, "User lock"); n != standbys {
					t.Errorf("%d wait for a lock, want %d", n, standbys)
				}
				if after["Com_update"] < renewals/2 {
					t.Errorf("%d renewals, want about %d", after["Com_update"], renewals)
				}
			})
		})
	}
}
