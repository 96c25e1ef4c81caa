// Package batch puts jobs together, so that one can see how far all of them have
// come, wait for them, and have other jobs run after them.
//
// A batch is made of what queues have: each of its jobs has a tag, a job that does
// nothing depends on all of them and so is their end, and the jobs that are to run
// after them depend on them too. Nothing else is stored. It works on every queue that
// is an amboy.JobFinder, which all of this module are.
package batch
