package driver

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
)

// Admin is the part of a Driver with which people look after jobs. All that it says
// of a Driver holds for it. A queue that has no driver, because it holds jobs by
// reference, has one of these all the same.
type Admin interface {
	// Get returns the latest attempt of a job, with the status that Find shows.
	// The error is a job not found where there is none.
	Get(ctx context.Context, queue, id string) (*Record, error)

	// Attempts returns the attempts of a retryable job, oldest first; none where
	// there is no such job, or it is not retryable.
	Attempts(ctx context.Context, queue, id string) ([]*Record, error)

	// Find returns a page of the records that a query selects. A record that is
	// there from the first page to the last, and is always selected, is on one
	// of the pages, once; one that is restarted meanwhile may be on another, too.
	// The error wraps ErrBadCursor for a cursor that is none of the driver's.
	Find(ctx context.Context, q Query, page PageRequest) (Page, error)

	// Count counts the records that a query selects, and stops at limit, which
	// must be at least 1.
	Count(ctx context.Context, q Query, limit int) (int, error)

	// Act does something to the records that a query selects, in the order in
	// which they were added; to each in one atomic step. It returns an error for
	// an action that is not valid, and as Find does for a bad cursor.
	Act(ctx context.Context, req ActRequest) (Acted, error)

	// Stats counts the records of a queue: what Find finds, and what has been
	// forgotten or deleted. Blocked are the pending ones that show
	// amboy.HoldBlocked.
	Stats(ctx context.Context, queue string) (amboy.QueueStats, error)

	// Queues describes the queues that were ever named by an Insert or a
	// Control, by name.
	Queues(ctx context.Context) ([]QueueInfo, error)

	// Control changes what is set for a queue, and returns it as it is then. An
	// empty change only reads.
	Control(ctx context.Context, queue string, change ControlChange) (Control, error)

	// Keep stores notes, each in the place of the one of its kind that has its
	// key. It changes nothing, and returns an error, where one is not valid (see
	// Note.Validate). Notes are no change that Subscribe tells of.
	Keep(ctx context.Context, notes ...Note) error

	// KeepNew stores a note unless there is one of its kind with its key, whose
	// time has not come at now. It returns the note that is there then, and
	// whether that is the new one. Of several that race one is new.
	KeepNew(ctx context.Context, note Note, now time.Time) (kept Note, isNew bool, err error)

	// Notes returns notes, in the order of the bytes of their keys. Some of them may
	// be there though their time has come.
	Notes(ctx context.Context, req NoteRequest) ([]Note, error)

	// Drop removes notes. It does nothing about a key that there is none with.
	Drop(ctx context.Context, kind string, keys ...string) error

	// Subscribe arranges for notify to be called after each change that may let
	// somebody claim, that ends a job, or that a person made, by whomever, until
	// cancel is called. One call may stand for several changes, and there may be
	// calls without one. notify must not block. cancel may be called again, and
	// does nothing then. A driver without Notifications may tell of its own
	// changes alone, or of none. A driver that names the queue of a change keeps what
	// the change costs from growing with the number of queues that are open.
	Subscribe(notify func(Change)) (cancel func())
}
