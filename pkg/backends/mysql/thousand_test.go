package mysql

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/simba-sidecar/simba-sidecar/internal/faultproxy"
	"github.com/simba-sidecar/simba-sidecar/internal/testserver"
)

// TestThousandContenders has the defaults' lease. The leader is cut off, as a machine that dies is.
func TestThousandContenders(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute, and a thousand connections")
	}
	const standbys = 999
	server := testserver.MariaDB(t, &testserver.SQLOptions{MaxConnections: 2500})
	s := newStore(t, server)
	proxy, err := faultproxy.New(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	c := contender("first")
	c.TTL, c.Transition = 10*time.Second, 6*time.Second
	r := newRace()
	u, err := url.Parse(s.location())
	if err != nil {
		t.Fatal(err)
	}
	u.Host = proxy.Addr()
	r.run(t, u.String(), c)
	leader := r.next(t)
	for i := range standbys {
		c.Identity = fmt.Sprintf("c%d", i)
		r.run(t, s.location(), c)
	}
	began := time.Now()
	r.quiet(t, s, standbys)
	t.Logf("started within %v", time.Since(began))
	s.root.SetMaxOpenConns(1) // the measuring makes no connections

	before, begin := s.counters(t), time.Now()
	time.Sleep(2 * c.TTL) // the time that is counted
	after, took := s.counters(t), time.Since(begin)
	reads, writes := after["Com_select"]-before["Com_select"], after["Com_update"]-before["Com_update"]
	t.Logf("in %v: %d reads, %d writes, %d connections", took, reads, writes, after["Connections"]-before["Connections"])
	if most := int(took/c.TTL)*standbys + standbys; reads > most {
		t.Errorf("%d reads by %d standbys, want at most one each per TTL: %d", reads, standbys, most)
	}
	if most := int(3*took/c.TTL) + 1; writes > most {
		t.Errorf("%d writes, want at most %d: the leader's", writes, most)
	}
	if !leader.State().Leading() || len(r.won) != 0 {
		t.Fatal("the leader has changed")
	}

	proxy.Refuse()
	cut := time.Now()
	next := r.next(t)
	failover := time.Since(cut)
	t.Logf("fail-over %v, lease %v", failover, c.Lease())
	if failover > c.Lease()*3/2 {
		t.Errorf("fail-over took %v, the lease is %v", failover, c.Lease())
	}
	if next.identity == leader.identity || r.most.Load() != 1 {
		t.Errorf("%s leads after %s, %d led at once", next.identity, leader.identity, r.most.Load())
	}
}
