package management

import (
	"context"
	"time"
)

// Diagnostician finds what is wrong with a store. The Inspectors of this package are
// Diagnosticians, and so is rest.Client.
type Diagnostician interface {
	// Diagnose reads the store and returns what is wrong with it, the most severe findings
	// first; a healthy store has none. If a part of the store can't be read, it returns the
	// other findings with an error. Its cost does not grow with the number of jobs: it reads
	// up to 10,000 queues and 10,000 running jobs, and samples of the others. It blocks as
	// long as that takes, and stops with an error when ctx ends.
	Diagnose(ctx context.Context) (Diagnosis, error)
}

var _ Diagnostician = (*inspector)(nil)

// Diagnosis is what was found to be wrong with a store.
type Diagnosis struct {
	// Time is when the store was read.
	Time time.Time `json:"time"`
	// Queues is the number of queues that were read. MoreQueues is true if there are more.
	Queues     int  `json:"queues"`
	MoreQueues bool `json:"more_queues,omitempty"`
	// Findings are the most severe first.
	Findings []Finding `json:"findings"`
}

// Severity is how severe a finding is.
type Severity string

const (
	// Critical findings keep jobs from running, or from being enqueued.
	Critical Severity = "critical"
	// Warning is the severity of other findings.
	Warning Severity = "warning"
)

// FindingKind is what was found.
type FindingKind string

// The kinds of findings, and when each is found.
const (
	// NoProcess: jobs are ready or have begun, and no live process has a started queue; or the
	// oldest job of a queue has waited for 15 minutes, and no live process has started that queue.
	NoProcess FindingKind = "no-process"
	// UnknownType: jobs wait whose type and version no live process has registered, and a process
	// has tried to run one of them.
	UnknownType FindingKind = "unknown-type"
	// ExpiredLease: the lease of a running job ran out more than one and a half times its length,
	// and a minute, ago, and no process has recovered the job. It is not found in memory.
	ExpiredLease FindingKind = "expired-lease"
	// PausedQueue and DrainingQueue: a queue is paused or has the rate 0, and its oldest job has
	// waited for 15 minutes; a queue has been draining for an hour, and jobs wait in it.
	PausedQueue   FindingKind = "paused-queue"
	DrainingQueue FindingKind = "draining-queue"
	// MissingIndex: an index that the driver needs does not exist or is not valid. It is a warning
	// if only lists and searches use the index. It is not found in memory.
	MissingIndex FindingKind = "missing-index"
	// FailingSchedule: the job of a schedule's last tick could not be enqueued.
	FailingSchedule FindingKind = "failing-schedule"
	// MissedSchedule: a schedule's tick passed five minutes ago, and no process has enqueued its
	// job.
	MissedSchedule FindingKind = "missed-schedule"
	// Deadlock: jobs wait for each other: each depends on the next, or needs a scope that the next took
	// when it was put. Jobs with a dispatch-by time do not count, because their wait ends.
	Deadlock FindingKind = "deadlock"
	// StuckJob: a job has not returned although its context has ended.
	StuckJob FindingKind = "stuck-job"
	// ParkedJobs: a queue has parked jobs that were created, or last ran, an hour ago.
	ParkedJobs FindingKind = "parked-jobs"
	// EndlessRetention: a queue has 10,000 finished jobs, and half of the latest 100 are kept for
	// ever. It is found in PostgreSQL and MongoDB.
	EndlessRetention FindingKind = "endless-retention"
	// ClockSkew: the clock of a process differs from that of the store by more than five seconds.
	// It is found in PostgreSQL and MongoDB.
	ClockSkew FindingKind = "clock-skew"
	// OldProcess: a live process knows a type only in older versions than another, does not report
	// its types, or runs jobs without reporting itself.
	OldProcess FindingKind = "old-process"
	// LargeLog: the write-ahead log of an SQLite file has 64 MB, or an unused replication slot of
	// PostgreSQL keeps 1 GB of it.
	LargeLog FindingKind = "large-log"
	// Bloat: more than half of an SQLite file, and 64 MB, are free; or a table of PostgreSQL has more
	// dead rows than live ones, and 100,000.
	Bloat FindingKind = "bloat"
	// OldTransaction: a transaction of PostgreSQL has been open for an hour.
	OldTransaction FindingKind = "old-transaction"
)

// FindingKinds lists all kinds of findings.
func FindingKinds() []FindingKind {
	return []FindingKind{
		NoProcess, UnknownType, ExpiredLease, PausedQueue, DrainingQueue, MissingIndex, FailingSchedule, MissedSchedule, Deadlock,
		StuckJob, ParkedJobs, EndlessRetention, ClockSkew, OldProcess, LargeLog, Bloat, OldTransaction,
	}
}

// Finding is one thing that is wrong.
type Finding struct {
	// Kind is what is wrong.
	Kind FindingKind `json:"kind"`
	// Severity is critical for what keeps jobs from running or from being enqueued, and
	// warning for the rest.
	Severity Severity `json:"severity"`
	// Subject is what the finding is about.
	Subject Subject `json:"subject"`
	// Detail describes what was found, with its numbers.
	Detail string `json:"detail"`
	// Why is why it matters.
	Why string `json:"why"`
	// Remedy is what to do about it.
	Remedy string `json:"remedy"`
	// Command does it, or shows more: a command for a shell if it begins with "amboy", and
	// otherwise for a client of the store. It is empty if there is none.
	Command string `json:"command,omitempty"`
	// Docs is the page about it, below the folder of this module.
	Docs string `json:"docs"`
}

// Subject is what a finding concerns. A subject without fields is the store. The queue may be
// one without a name: then InQueue is true and Queue is empty.
type Subject struct {
	// InQueue is true if the finding is about a queue, whose name may be empty.
	InQueue bool   `json:"in_queue,omitempty"`
	Queue   string `json:"queue,omitempty"`
	// JobID is the ID of a job; absent if the finding is not about one.
	JobID string `json:"job_id,omitempty"`
	Type  string `json:"type,omitempty"`
	// Schedule is the name of a schedule; absent if the finding is not about one.
	Schedule string `json:"schedule,omitempty"`
	// Process is the ID of a process.
	Process string `json:"process,omitempty"`
	// Name is the name of an index, a table or a file.
	Name string `json:"name,omitempty"`
}
