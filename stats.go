package amboy

import (
	"fmt"

	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
)

// QueueStats counts the jobs of a queue. It is also a message that grip can log.
//
// Total is Pending + Running + Completed. Blocked is a part of Pending, and Retrying
// a part of Completed. If a queue forgets its oldest finished jobs, Total and
// Completed still count them.
type QueueStats struct {
	// Running counts the jobs that a worker runs.
	Running int `bson:"running" json:"running" yaml:"running"`
	// Completed counts the attempts that have ended.
	Completed int `bson:"completed" json:"completed" yaml:"completed"`
	// Retrying counts the completed attempts that wait to be replaced by the
	// next one.
	Retrying int `bson:"retrying" json:"retrying" yaml:"retrying"`
	// Pending counts the jobs that have not started: due, scheduled, blocked and
	// parked jobs.
	Pending int `bson:"pending" json:"pending" yaml:"pending"`
	// Blocked counts the pending jobs that wait for a scope or a dependency.
	Blocked int `bson:"blocked" json:"blocked" yaml:"blocked"`
	// Total counts all jobs.
	Total int `bson:"total" json:"total" yaml:"total"`
	// Context holds the fields that Annotate added.
	Context message.Fields `bson:"context,omitempty" json:"context,omitempty" yaml:"context,omitempty"`
	// Err is why the store could not be queried. If it is set, the counts are 0 and
	// IsComplete and IsIdle are false. It is not stored.
	Err error `bson:"-" json:"-" yaml:"-"`

	priority level.Priority
}

var _ message.Composer = (*QueueStats)(nil)

// IsComplete reports whether no job awaits a retry and all jobs except blocked ones
// have ended. A blocked job may run later: see IsIdle.
func (s QueueStats) IsComplete() bool {
	return s.Err == nil && s.Retrying == 0 && s.Completed+s.Blocked >= s.Total
}

// IsIdle reports whether every job has ended and none awaits a retry. Wait waits for
// this.
func (s QueueStats) IsIdle() bool {
	return s.Err == nil && s.Total <= s.Completed && s.Pending == 0 && s.Running == 0 && s.Retrying == 0
}

// String returns the counts in one line.
func (s QueueStats) String() string {
	return fmt.Sprintf("running='%d', completed='%d', retrying='%d', pending='%d', blocked='%d', total='%d'",
		s.Running, s.Completed, s.Retrying, s.Pending, s.Blocked, s.Total)
}

// Loggable returns true.
func (s QueueStats) Loggable() bool { return true }

// Raw returns the stats themselves.
func (s QueueStats) Raw() any { return s }

// Priority is the log level that SetPriority set.
func (s QueueStats) Priority() level.Priority { return s.priority }

// SetPriority sets the log level. It returns an error if p is not a valid level.
func (s *QueueStats) SetPriority(p level.Priority) error {
	if !p.IsValid() {
		return fmt.Errorf("setting priority of queue stats: %d is not a log level", p)
	}
	s.priority = p
	return nil
}

// Annotate adds a field to Context. It returns an error if the key already exists.
func (s *QueueStats) Annotate(key string, value any) error {
	if _, ok := s.Context[key]; ok {
		return fmt.Errorf("annotating queue stats: key %q already exists", key)
	}
	if s.Context == nil {
		s.Context = message.Fields{}
	}
	s.Context[key] = value
	return nil
}
