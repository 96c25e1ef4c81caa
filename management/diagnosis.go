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
	// Critical findings keep jobs from running, or from being put.
	Critical Severity = "critical"
	// Warning is the severity of other findings.
	Warning Severity = "warning"
)

// FindingKind is what was found.
type FindingKind string

// The kinds of findings.
const (
	// NoProcess: jobs wait, and no live process runs them.
	NoProcess FindingKind = "no-process"
	// UnknownType: jobs wait whose type no live process has registered.
	UnknownType FindingKind = "unknown-type"
	// ExpiredLease: running jobs whose leases were not renewed and not recovered either.
	ExpiredLease FindingKind = "expired-lease"
	// PausedQueue and DrainingQueue: a queue was paused, has the rate 0, or was drained, and jobs
	// wait for long.
	PausedQueue   FindingKind = "paused-queue"
	DrainingQueue FindingKind = "draining-queue"
	// MissingIndex: an index that the store needs does not exist.
	MissingIndex FindingKind = "missing-index"
	// FailingSchedule: the job of a schedule could not be put.
	FailingSchedule FindingKind = "failing-schedule"
	// MissedSchedule: a schedule's tick has passed, and no process has put its job.
	MissedSchedule FindingKind = "missed-schedule"
	// StuckJob: jobs run on although they should have ended.
	StuckJob FindingKind = "stuck-job"
	// ParkedJobs: jobs were set aside for long, and were neither released nor canceled.
	ParkedJobs FindingKind = "parked-jobs"
	// EndlessRetention: many finished jobs that nothing will remove.
	EndlessRetention FindingKind = "endless-retention"
	// ClockSkew: the clock of a process differs from that of the store.
	ClockSkew FindingKind = "clock-skew"
	// OldProcess: a process with an older version of the service or of this library.
	OldProcess FindingKind = "old-process"
	// LargeLog: the write-ahead log of the store grows.
	LargeLog FindingKind = "large-log"
	// Bloat: the store has much space that is not used.
	Bloat FindingKind = "bloat"
	// OldTransaction: a transaction keeps the store from cleaning up.
	OldTransaction FindingKind = "old-transaction"
)

// FindingKinds lists all kinds of findings.
func FindingKinds() []FindingKind {
	return []FindingKind{
		NoProcess, UnknownType, ExpiredLease, PausedQueue, DrainingQueue, MissingIndex, FailingSchedule, MissedSchedule, StuckJob,
		ParkedJobs, EndlessRetention, ClockSkew, OldProcess, LargeLog, Bloat, OldTransaction,
	}
}

// Finding is one thing that is wrong.
type Finding struct {
	Kind     FindingKind `json:"kind"`
	Severity Severity    `json:"severity"`
	Subject  Subject     `json:"subject"`
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
	InQueue  bool   `json:"in_queue,omitempty"`
	Queue    string `json:"queue,omitempty"`
	JobID    string `json:"job_id,omitempty"`
	Type     string `json:"type,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	// Process is the ID of a process.
	Process string `json:"process,omitempty"`
	// Name is the name of an index, a table or a file.
	Name string `json:"name,omitempty"`
}
