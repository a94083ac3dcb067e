// Package backendtest is the contract of election.Backend as tests. Every backend runs them against a real
// server of its store:
//
//	func TestConformance(t *testing.T) {
//		server := mysqlServer.Get(t)
//		backendtest.Run(t, backendtest.Harness{
//			Addr: server.Addr(),
//			Open: func(addr string, c election.Contender) (election.Backend, error) { … },
//		})
//	}
//
// Everything runs at the same time, since most tests wait for leases to run out. A run takes about half a
// minute, and a quarter of that with -short. Every test uses mutexes of its own, so that the server may be
// shared with other tests.
//
// The tests call the backend in ways that an Elector never would, such as with tokens of terms long over,
// because mistakes show there. Answers are judged by their order and by the leases that were promised,
// never by how quickly they came.
//
// History, the checker of the last group, stands on its own: it records the calls of any contenders, and
// says whether one correct lease explains the answers.
package backendtest
