// Package local keeps the lease of one mutex in a directory, for contenders on one machine: a file that
// every change replaces as a whole, and a second file whose flock puts the changes in order.
//
// Each file's name is derived from the mutex:
//
//	<mutex>-<hash>.json   {"mutex":"orders","holder":"web-0_k3f9q2ab","token":17,"boot":"…","expires":…}
//	<mutex>-<hash>.lock   empty; locked around read, decide, write; never removed
//
// A lease ends at an instant of CLOCK_BOOTTIME within one boot of the machine. That clock cannot be set,
// goes on while the machine is suspended, and is the same in all its processes, so steps of the wall
// clock change nothing, and after a reboot every earlier lease is over.
//
// The state file is read without the lock: it is only ever renamed into place. A deleted state file is a
// free mutex, and its next tokens start from the wall clock's microseconds, so that they go on growing
// (and stay exact in JSON). A state file that makes no sense is an error and never a free mutex.
//
// What this cannot do: serve processes that do not share one kernel's clock and locks. Network and FUSE
// file systems are refused; containers that have a boot id of their own (systemd-nspawn, LXD) or a time
// namespace with another CLOCK_BOOTTIME are machines of their own.
package local
