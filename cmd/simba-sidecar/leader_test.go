package main

import (
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"
)

// leadersOf returns those who answer 200, asked one after the other.
func leadersOf(members []*sidecar) (leaders []*sidecar) {
	for _, m := range members {
		if m.ask().code == http.StatusOK {
			leaders = append(leaders, m)
		}
	}
	return leaders
}

// agree waits until one leads and all others know who, and with which token.
func agree(t *testing.T, members []*sidecar) (leader *sidecar, says answer) {
	t.Helper()
	eventually(t, "one leader whom all others see", func() bool {
		leaders := leadersOf(members)
		if len(leaders) != 1 {
			return false
		}
		leader, says = leaders[0], leaders[0].ask()
		return says.code == http.StatusOK && !slices.ContainsFunc(members, func(m *sidecar) bool {
			if m == leader {
				return false
			}
			a := m.ask()
			return a.State != "standby" || a.Holder != says.Identity || a.Token != says.Token
		})
	})
	return leader, says
}

// TestThreeProcessesHaveOneLeader watches them for longer than a lease lasts without being renewed, and then
// stops one leader after the other.
func TestThreeProcessesHaveOneLeader(t *testing.T) {
	stores(t, func(t *testing.T, st site) {
		flags := []string{"--ttl", "3s", "--transition", "500ms"}
		members := []*sidecar{startSidecar(t, st.url, flags...), startSidecar(t, st.url, flags...), startSidecar(t, st.url, flags...)}
		newWitness(t).follow(t, members...)
		leader, last := agree(t, members)
		for begin := time.Now(); time.Since(begin) < 4*time.Second; {
			if l := leadersOf(members); len(l) != 1 || l[0] != leader {
				t.Fatalf("after %v, with nothing happening, %d lead", time.Since(begin), len(l))
			}
			if got := st.row(t); got != (row{last.Identity, last.Token}) {
				t.Fatalf("the store has %+v, the leader is %s with token %d", got, last.Identity, last.Token)
			}
		}
		for {
			leader.send(syscall.SIGTERM)
			if code := leader.code(); code != 0 {
				t.Errorf("exit code after TERM: %d", code)
			}
			members = slices.DeleteFunc(members, func(m *sidecar) bool { return m == leader })
			if len(members) == 0 {
				break
			}
			before := last.Token
			if leader, last = agree(t, members); last.Token <= before {
				t.Errorf("token %d after %d", last.Token, before)
			}
		}
		if got := st.row(t); got != (row{"", last.Token}) {
			t.Errorf("when all have stopped, the store has %+v, want it free with the last token, %d", got, last.Token)
		}
	})
}
