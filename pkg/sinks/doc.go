// Package sinks takes an election's states to the places outside the elector that follow it.
//
// A Group gives every Sink a goroutine and the latest State, and tries again for as long as that State
// is the latest. Its sinks are in the order of their effects, the same when leadership begins and when
// it ends: a sink starts on a change when all sinks before it have tried it once. An effect that belongs
// at different places of the two orders is two sinks, one of which has nothing to do at the beginning
// and the other at the end.
//
// What a sink may rely on:
//
//   - It is never told to lead by a State that has run out, however late its goroutine gets to run.
//   - Between two terms it has applied "not leading" with success, even when the process was too slow
//     to notice that there was anything between them.
//   - What it does while leading is cut off when the term is over; what it does because the term is
//     over is cut off at State.Cutoff, by when the next leader elsewhere may have begun.
//
// Files is the sink that keeps status.json and leader in a directory shared with the application, and
// DirLock is what makes a restarted sidecar continue its predecessor's term there.
package sinks
