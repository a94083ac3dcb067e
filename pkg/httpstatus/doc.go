// Package httpstatus answers HTTP from an election's state.
//
// Every answer asks the State at the moment of the request; nothing is cached, so a process that was
// frozen past its deadline says "not leading" on its first answer. Health says how this process is, and
// not how the store is: an unreachable store must not make a kubelet restart the one container that
// could still tell the application to stop.
package httpstatus
