package driver

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
)

// Admin is the part of a Driver that operators manage jobs with. The rules of Driver
// apply to it. A queue without a driver, which holds jobs by reference, provides an Admin
// too.
type Admin interface {
	// Get returns the latest attempt of a job, with the status that Find shows. The error
	// is a job not found if there is none. A record that can't be decoded is returned without
	// a type and a job, as by Find, so that an operator can end it.
	Get(ctx context.Context, queue, id string) (*Record, error)

	// Attempts returns the attempts of a retryable job, oldest first. It returns none if
	// the job does not exist or is not retryable.
	Attempts(ctx context.Context, queue, id string) ([]*Record, error)

	// Find returns a page of the records that a query selects. A record that exists from
	// the first page to the last, and is always selected, is on exactly one page. A restart
	// meanwhile makes it the newest: then it may be on two pages, or with page.Newest on none.
	// The error wraps ErrBadCursor if the driver did not issue the cursor. A record that can't
	// be decoded has no type and no job.
	Find(ctx context.Context, q Query, page PageRequest) (Page, error)

	// Count counts the records that a query selects, and stops at limit, which
	// must be at least 1. If ctx ends first, it returns the number that it has counted until
	// then, and the error.
	Count(ctx context.Context, q Query, limit int) (int, error)

	// Act performs an action on the records that a query selects, in the order in which
	// they were added. Each record is changed in one atomic step. It returns an error for
	// an invalid action, and handles a bad cursor as Find does.
	Act(ctx context.Context, req ActRequest) (Acted, error)

	// Stats counts the records of a queue: those that Find finds, and those that were
	// forgotten or deleted. Blocked counts the pending records that show
	// amboy.HoldBlocked.
	Stats(ctx context.Context, queue string) (amboy.QueueStats, error)

	// Queues describes the queues that an Insert or a Control has named and that Prune has not
	// dropped since, sorted by the bytes of their names. The cost of a page depends on the
	// queues on it, and not on how many others the store has.
	Queues(ctx context.Context, req QueueRequest) ([]QueueInfo, error)

	// SumQueues adds up all queues in one read of the store, and describes the busiest of
	// them: at most the given number, and none if busiest is 0. Queues that change meanwhile may be
	// counted before or after the change.
	SumQueues(ctx context.Context, busiest int) (QueueTotals, error)

	// CountTypes counts the jobs that have not ended, by queue and type, sorted by both. It
	// may read all of their records, though not in one step: jobs that change meanwhile may
	// be counted twice or not at all. So it is for background work, and not for each request.
	CountTypes(ctx context.Context) ([]TypeCount, error)

	// OldestReady returns, for each of the queues that has ready records, since when the
	// oldest of them could have been claimed (see ReadySince). The oldest is the first that
	// was added; a driver may compare only the records that would be claimed first of each
	// priority or kind. Scheduled records whose time has come at now, although no claim has
	// made them ready, count too; if more than MaxOverdue records of a store are due, a driver
	// may find only the first of them. Its cost does not grow with the number of records.
	OldestReady(ctx context.Context, queues []string, now time.Time) (map[string]time.Time, error)

	// Control changes the settings of a queue and returns the new settings. An empty
	// change only reads.
	Control(ctx context.Context, queue string, change ControlChange) (Control, error)

	// Keep stores notes. Each replaces the note of its kind with the same key. If a note
	// is not valid (see Note.Validate), Keep changes nothing and returns an error.
	// Subscribers are not notified of notes.
	Keep(ctx context.Context, notes ...Note) error

	// KeepNew stores a note, unless a note of its kind with its key exists whose Until is
	// after now. It returns the note that is stored then, and reports whether that is the
	// new one. If several calls race, one of them stores its note.
	KeepNew(ctx context.Context, note Note, now time.Time) (kept Note, isNew bool, err error)

	// Replace stores a note in place of the note of its kind with its key, if that exists and has
	// the value old. It reports whether the note has its new value then: a repetition reports true
	// too, and callers whose calls may race must not store equal values.
	Replace(ctx context.Context, note Note, old []byte) (replaced bool, err error)

	// Notes returns notes sorted by the bytes of their keys. It may return notes whose
	// Until has passed.
	Notes(ctx context.Context, req NoteRequest) ([]Note, error)

	// Drop removes notes. Keys without a note are ignored.
	Drop(ctx context.Context, kind string, keys ...string) error

	// Subscribe arranges for notify to be called after each change, made by any process,
	// that may make a record claimable, ends a job, or was made by an operator. Calls end
	// when cancel is called. One call may stand for several changes, and there may be
	// calls without a change. notify must not block. Calling cancel again does nothing. A
	// driver without Notifications may report only its own changes, or none. If a driver
	// names the queue of a change, the cost of the change does not grow with the number
	// of open queues.
	Subscribe(notify func(Change)) (cancel func())
}
