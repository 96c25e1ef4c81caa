// Package amboy is a job queue for Go services.
//
// A service defines jobs and puts them into a [Queue], and a [Runner], a pool of
// workers, runs them. A job is a function with a name (job.Define), or a type
// that embeds job.Base and has a Run method. The same job runs on a queue in
// memory, on an embedded database file or on a database shared by many
// processes; only the queue's constructor changes.
//
// This package holds the contract (interfaces and value types) and the functions
// that work on every queue: errors, stats, waiting, enqueueing and periodic
// operations. It stores nothing and starts no worker. Package queue provides the
// queues, package pool the runners, and package job the definitions and the type
// to embed.
//
// Delivery is at least once: a job that Put accepted runs to an end, and a job
// that ended is not run again. If a process crashes while it runs a job, the job
// runs a second time, so Run must tolerate that.
package amboy
