package queue

import "github.com/mongodb/amboy"

// KeepForever is the time in a Retention of jobs that stay as long as the store has
// room for them.
const KeepForever = amboy.KeepForever

// The retention of jobs where a Retention leaves it at 0.
const (
	DefaultKeepSucceeded = amboy.DefaultKeepSucceeded
	DefaultKeepOthers    = amboy.DefaultKeepOthers
)

// Retention tells how long a job that ended stays in the store.
type Retention = amboy.Retention
