// Package engine runs the jobs of a store. The queues of a process on one store share an
// Engine, which claims jobs for their workers, renews leases and writes ends. A Queue decodes
// the jobs that its engine claims, and encodes how they ended.
//
// What to do is decided by the state machine of internal/core. The engine tells it what
// happens and executes its commands: Engine.Happen in engine.go, the calls of the driver in
// calls.go, workers and the contexts of runs in workers.go, ends in ends.go. The methods of
// Queue are in the files queue*.go, by the step in a job's life.
package engine
