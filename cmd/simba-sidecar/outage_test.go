package main

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// TestStoreThatIsDownForThreeLeases takes the store away from three sidecars; a database is really stopped.
func TestStoreThatIsDownForThreeLeases(t *testing.T) {
	ownStores(t, func(t *testing.T, st site) {
		const ttl, lease = time.Second, 1500 * time.Millisecond
		var members []*sidecar
		d := dirs(t, "a", "b", "c")
		for _, dir := range d {
			members = append(members, startSidecar(t, st.url, "--ttl", ttl.String(), "--transition", (lease-ttl).String(), "--dir", dir))
		}
		newWitness(t).follow(t, members...)
		alive := func() {
			t.Helper()
			for _, m := range members {
				if code, body := get(t, http.MethodGet, m.url+"/livez"); code != http.StatusOK {
					t.Fatalf("/livez of %s: %d %s", m.url, code, body)
				}
			}
		}
		_, before := agree(t, members)

		start := st.stop(t)
		for down := time.Now(); time.Since(down) < 3*lease; alive() {
			// A renewal that came through began before the store was down.
			over := time.Since(down) > ttl
			if leaders := leadersOf(members); over && len(leaders) != 0 {
				t.Fatalf("%s leads %v after the store went away", leaders[0].url, time.Since(down))
			}
		}
		for _, dir := range d {
			if exists(filepath.Join(dir, "leader")) {
				t.Errorf("a file in %s says leader", dir)
			}
		}
		start()
		eventually(t, "a leader again", func() bool {
			alive()
			return len(leadersOf(members)) > 0
		})
		if _, after := agree(t, members); after.Token <= before.Token {
			t.Errorf("token %d after %d", after.Token, before.Token)
		}
		alive()
		for _, m := range members {
			select {
			case <-m.ended:
				t.Errorf("process %d has ended: %v", m.Process.Pid, m.ProcessState)
			default:
			}
		}
	})
}
