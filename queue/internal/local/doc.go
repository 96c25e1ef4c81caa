// Package local is the queue that holds jobs by reference, in this process. Its jobs lie in
// the in-memory job table of package schedule, behind one lock. Methods of a job are called
// with that lock held only by Put, the actions of operators and the recovery of stale locks,
// which change the job and its place in one step.
//
// A job's way through the queue, with the functions in this order:
//
//	Put → put → add → [schedule] → Next → take → mayRun → run
//	    → Complete → endAttempt → retry, or finished
//
// Release and Snooze put a running job back.
package local
