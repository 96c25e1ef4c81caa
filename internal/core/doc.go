// Package core decides what the engine of driver-backed queues does. It is a state
// machine without I/O: it starts no goroutine, takes no lock and reads no clock.
// [Core.Step] is told of an [Event], which is all that can arrive, and returns the
// [Command]s that follow from it. A shell carries them out and tells the core what came
// of them. The same events at the same times always give the same commands, so that a
// run can be repeated (see internal/simulation).
//
// A run is one lease of one job, from its claim to its end in the store:
//
//	          Claimed                Start               Finished              Written
//	(store) ──────────▶ claimed ──────────────▶ started ──────────▶ finishing ─────────▶ done
//	                      │                                           ▲   ▲  │
//	                      ├── no worker, or too late: handed back ────┘   │  └─ the store refuses: tried again
//	                      └── its time to start has passed: Expire ───────┘
//
// Beside it stands the lease, which ends in one of three ways before the run does:
//
//	held ──▶ canceled   somebody asked for it: the context ends with amboy.ErrAborted
//	held ──▶ fenced     not renewed in time, by the monotonic clock: the context ends with
//	                    amboy.ErrLeaseLost, and the run is handed back when it returns
//	held ──▶ lost       the store says that another has it: the context ends likewise, and
//	                    nothing is written
//
// What holds at all times:
//
//   - A kind of jobs that this process does not know is met once. From then on claims
//     leave it to others, until something is registered here.
//   - No record is claimed without a worker that waits for it, but for those that have
//     expired, which need none.
//   - A run that was claimed ends in exactly one [Done], whatever the store answers.
//   - The lease of a run counts from when the call that took or renewed it was sent. What
//     has run out when the answer arrives is handed back unrun.
//   - The end of a run is offered to the store until it takes it, refuses it for good, or
//     whoever waits for it gives up. The lease is renewed until then.
//   - One end that the store can't take keeps no other from being written.
//   - Between an error of the store and the first renewal after it, nothing is recovered:
//     holders come first.
package core
