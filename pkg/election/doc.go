// Package election decides from leases and clocks whether this process leads.
//
// An [Elector] contends for one named mutex through a [Backend], which speaks one store's protocol and
// holds no policy. Its answer is a [State], a value that knows when it stops being true. [Lock] wraps an
// Elector for programs that only want to hold a mutex while they work.
//
// # Words
//
// A contender asks for a lease, a claim on the mutex that is bound in time. Whoever has it is the
// holder. One unbroken holding is a term, and every term has a fencing token: larger than that of every
// term before, constant while the term lasts. A holder may act for TTL after the start of its last good
// call; everybody else waits Transition longer. Sinks are the places that follow the State; they settle
// when they agree with the latest one.
//
// # Why at most one leads
//
// 1. Every call has one of three outcomes: the mutex is ours, it is somebody else's or free, or nothing
// is known (an error, or no answer). Only the second ends leading at once. The third is trusted until
// the deadline, and not a nanosecond longer.
//
// 2. The deadline is callStart + Remaining − Transition. callStart is read before the request is sent,
// so however long the answer travels, the store's lease began later than we count. Remaining is how
// long nobody else can take the mutex, counted from callStart; for a grant it is TTL + Transition. So a
// leader stops Transition before anybody else may start, by two clocks that only have to run at about
// the same rate: one machine's time is never compared with another's.
//
//	callStart                          deadline     cut-off         others may take it
//	    |---------------- TTL ------------|--- T/2 ----|--- T/2 ----|
//	    |          may act                | sinks stop |   margin   |
//
// 3. Leadership is recomputed at every read. [State.Leading] asks the monotonic clock and, on Linux,
// CLOCK_BOOTTIME, which goes on while the machine is suspended; both must be before the deadline. Wall
// time is for display: a step of it changes nothing. A process that was stopped and wakes after the
// deadline says "not leading" in its very first answer, before any goroutine has run. The limit is a
// pause of a whole guest that the guest's clocks cannot see.
//
// 4. The loop does no I/O, and I/O touches no state. One call is in flight at a time, in a goroutine of
// its own; the deadline is served even if the call ignores its context ([Elector.Live] then fails once
// the call has outlived its time-out by TTL). Renewals start at a third of the window, and every call's
// time-out is a quarter of it, so that a dead connection costs an attempt and not the lease.
//
// 5. A term ends for good at its deadline. An answer that comes later revives nothing: what it granted
// is released, and the next term has a larger token. The one exception is the first renewal of a process
// that was restarted ([Options].ResumeToken), whose predecessor is provably dead and whose application
// may still act on the term.
//
// 6. Giving up on purpose ends candidacy first. A call in flight is awaited, and its win is never
// published. Then the State says "stepping-down", sinks settle while the lease goes on being renewed,
// and only then is the mutex released. Losing is the same without the renewals, bounded by the
// cut-off half a Transition after the deadline. So nobody leads while our sinks still follow.
//
// 7. A Publisher whose sink last applied term 7 and now finds term 9 applies "not leading" in between.
//
// 8. The loop never ends because of the store. It says what is wrong and tries again, with a backoff
// that is spread at random.
//
// 9. A store's clock may step, and a store may lose data. A contender that has learned of a lease waits
// for its end on its own clock before it believes that the lease has run out or vanished
// ([Lease].Lapsed); a release it believes at once. A new token is larger than all that the store or this process has seen.
//
// What no elector can do: stop a paused application that believes it leads (only the token can, checked
// by the resource that is written to); survive a store that loses writes it had acknowledged, or whose
// clock jumps by more than Transition while nobody looks, without a second leader for up to one lease.
//
// # The loop
//
//	              Acquire granted
//	contending ───────────────────────▶ leading ──────────┐ deadline, or
//	 ▲  │  ▲                               │              │ somebody else's
//	 │  │  └── Observe, Acquire            │ stop,        │
//	 │  │                                 │ step down    │
//	 │  │ stop, step down,                ▼              ▼
//	 │  │ or a grant that came        yielding ───────▶ ended
//	 │  │ too late                  (renews; sinks   (sinks settle; a call in
//	 │  └──────────────────────┐     settle)          flight is awaited)
//	 │                         │       │ settled        │ settled
//	 │                         └───────┼──▶ ended       │
//	 │                                 ▼                │
//	 └──────── nothing left ─────── releasing ◀─────────┘
//	                                   │
//	                                   └──▶ stopped, if asked to stop
//
// While contending, a hint or the end of the known lease leads to a read (Observe), and only a read that
// finds the mutex free leads to an Acquire: a standby writes nothing. Without hints it polls at a
// quarter of TTL; with them, at the known lease's end. After a hint that woke one contender it acts at
// once, after one that woke all within 10 ms at random, and at the end of a lease within 50 ms. Where
// hints wake one contender, the others leave it up to a quarter of TTL: a thousand of them do not crowd
// the store in the moment in which one has to get through.
package election
