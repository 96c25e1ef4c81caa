// Package batch groups jobs, to observe their progress, to wait for all of them, and to
// run other jobs after them.
//
// A batch is built from features of queues. Each of its jobs has a tag. Its marker, a job
// that does nothing, depends on all of them and so ends after them. The jobs that run
// after the batch depend on its jobs or its marker. Nothing else is stored. Batches work
// on every queue that is an amboy.JobFinder, as all queues of this module are.
package batch
