// Package suite contains tests of the common behavior of all queues: typed jobs, retries,
// middleware, events, schedules and batches. Each test runs on every queue of the table
// in queues_test.go. One line in that table adds a queue.
package suite
