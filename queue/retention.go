package queue

import "github.com/mongodb/amboy"

// KeepForever in a Retention keeps jobs for as long as the store has room for them.
const KeepForever = amboy.KeepForever

// The default retention of jobs, used if the fields of a Retention are 0.
const (
	DefaultKeepSucceeded = amboy.DefaultKeepSucceeded
	DefaultKeepOthers    = amboy.DefaultKeepOthers
)

// Retention configures how long a finished job stays in the store.
type Retention = amboy.Retention
