// Package promamboy measures queues for Prometheus. [Handler] serves the metrics in the text
// form of Prometheus, and [New] returns a collector for a registry that the service already
// has.
//
// There are two kinds of metrics. Metrics of the store, for instance amboy_jobs, are the same in
// every process: combine them with max, not with sum. Metrics of the process, for instance
// amboy_attempts_total, count what this process has done since it opened its queues.
// docs/guides/measure-queues.md lists all of them.
//
// A scrape reads counts that the store keeps, so that its cost does not grow with the number
// of jobs in memory, SQLite and PostgreSQL. A MongoDB counts index keys.
package promamboy
