// Package faultproxy is a TCP proxy for tests: it stands between a client and a
// real server and breaks the network between them on demand.
//
// A Proxy starts out passing everything. Each verb replaces the one before it,
// for the connections that are open and for those that come:
//
//	Pass       bytes flow
//	Refuse     open connections are reset, and so is every new one
//	Blackhole  connections stay open and nothing flows: a partition
//	Delay      bytes flow, late
//	Cut        the connection dies in the middle of the server's answer
//
// A verb holds for every byte that reaches the proxy after the verb returned.
// Nothing is ever lost from the middle of a stream or reordered, because TCP
// would not do that either: what a partition withheld arrives when it heals.
package faultproxy
