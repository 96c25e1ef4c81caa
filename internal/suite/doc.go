// Package suite has tests of what all queues do alike: typed jobs, retries,
// middleware, events, schedules and batches. Each test runs on every queue of the
// table in queues_test.go, to which a new queue is added with one line.
package suite
