// Package core decides what the engine of driver-backed queues does. It is a state
// machine without I/O: it starts no goroutine, takes no lock and reads no clock.
// [Core.Step] receives an [Event] and returns the [Command]s that follow from it. A shell
// executes them and reports the results to the core as further events. The same events at
// the same times always give the same commands, so that a run can be repeated (see
// internal/simulation).
//
// A run is one lease of one job, from its claim until its end is stored:
//
//	          Claimed                Start               Finished              Written
//	(store) ──────────▶ claimed ──────────────▶ started ──────────▶ finishing ─────────▶ done
//	                      │                                           ▲   ▲  │
//	                      ├── no worker, or too late: handed back ────┘   │  └─ write failed: retried
//	                      └── its dispatch-by time has passed: Expire ────┘
//
// The lease has a state of its own. It can leave "held" before the run ends:
//
//	held ──▶ canceled   a cancellation was requested: the context ends with amboy.ErrAborted
//	held ──▶ fenced     not renewed in time, by the monotonic clock: the context ends with
//	                    amboy.ErrLeaseLost, and the run is handed back when it returns
//	held ──▶ lost       the store reports another owner: the context ends with
//	                    amboy.ErrLeaseLost, and no hand-back is written
//
// Invariants:
//
//   - A kind of job that this process does not know is claimed once. Later claims leave
//     the kind to other processes, until a type is registered here.
//   - Records are claimed only for waiting workers, and for workers that are about to come
//     because their jobs take less time than a claim (see ahead.go). Expired records are the
//     exception, because they need no worker.
//   - Each claimed run ends in exactly one [Done], whatever the store answers.
//   - The duration of a lease counts from when the call that took or renewed it was sent.
//     If it is over when the answer arrives, the run is handed back without being started.
//   - The end of a run is offered to the store until the store accepts it, refuses it for
//     good, or the caller gives up. The lease is renewed until then.
//   - An end that the store can't accept does not keep other ends from being written.
//   - Between an error of the store and the first renewal after it, nothing is recovered,
//     so that other processes can renew their leases first.
package core
