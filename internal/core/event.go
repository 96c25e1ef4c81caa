package core

import (
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// Event is something that has happened. The types below are all that there are.
type Event interface{ isEvent() }

type (
	// Opened adds a queue, whose workers may wait from now on. A line of the same
	// queue that was there before gets nothing any more.
	Opened struct{ Line *Line }
	// Resumed lets the workers of a queue have jobs.
	Resumed struct{ Line *Line }
	// Stopped sends the workers of a queue away.
	Stopped struct{ Line *Line }
	// Left removes a queue, after Stopped.
	Left struct{ Line *Line }
	// Watched says that so many more, or fewer, want to know when the queue is idle.
	Watched struct {
		Line *Line
		By   int
	}

	// Waiting says that a worker waits for a job.
	Waiting struct{ Worker *Worker }
	// Gone says that it does not any more.
	Gone struct{ Worker *Worker }
	// Yielded answers Yield.
	Yielded struct{}

	// Changed says that there may be something new to claim: of a queue, or of any if
	// Line is nil.
	Changed struct{ Line *Line }
	// StoreChanged says that the store was changed, by this process or another. A running
	// job may have to be canceled.
	StoreChanged struct{ driver.Change }
	// DueAt says that there will be something to do at a time of the wall clock.
	DueAt struct{ Time time.Time }
	// Unknown says that this process does not know a kind of jobs, of which it has no
	// lease.
	Unknown struct{ Kind driver.Kind }
	// Registered says that this process may know kinds that it did not know.
	Registered struct{}
	// Tick says that it is time: the one for which Wake asked, or any other.
	Tick struct{}

	// Claimed answers Claim.
	Claimed struct {
		Call    Call
		Records []*driver.Record
		// Next is when there may be more because a time comes.
		Next time.Time
		Err  error
	}
	// Looked answers Look.
	Looked struct {
		Call Call
		Work driver.Work
		Err  error
	}
	// Opens lets queues be opened that have work: at the times at which jobs are due, when
	// this process has changed them, and beside that this often.
	Opens struct{ Every time.Duration }
	// QueuesOpened answers OpenQueues.
	QueuesOpened struct{}
	// Renewed answers Renew.
	Renewed struct {
		Call Call
		Lost []driver.Lease
		Err  error
	}
	// CancelsFound answers CheckCancels.
	CancelsFound struct {
		Call   Call
		Leases []driver.Lease
		Err    error
	}
	// Recovered answers Recover.
	Recovered struct {
		Call Call
		Jobs int
		Err  error
	}
	// Forgotten answers Forget.
	Forgotten struct {
		Call Call
		Err  error
	}
	// RetriesScanned answers ScanRetries.
	RetriesScanned struct {
		Call Call
		Err  error
	}

	// Stuck reports that a run goes on although it should have returned.
	Stuck struct{ Run *Run }
	// Transacted says that the end of a run is being written in a transaction of its job.
	Transacted struct{ Run *Run }
	// Finished says that a run has returned, or is not to begin, and how it ends.
	Finished struct {
		Run *Run
		End End
	}
	// Lost says that the lease of a run is another's.
	Lost struct{ Lease driver.Lease }
	// GivenUp says that nobody waits any more for the end of a run to be written.
	GivenUp struct{ Run *Run }
	// Written answers Complete and Release: Errs has an error for each run, unless Err
	// is that of the whole call.
	Written struct {
		Call Call
		Errs []error
		Err  error
		// Final is true for an Err that no further try can change.
		Final bool
	}
	// Checked answers Check.
	Checked struct {
		Run     *Run
		Written bool
	}

	// Closing says that no more runs will begin, and that ends are to be written at once.
	Closing struct{}
	// Abandoned says that nobody waits for any end any more.
	Abandoned struct{}
)

func (Opened) isEvent()         {}
func (Resumed) isEvent()        {}
func (Stopped) isEvent()        {}
func (Left) isEvent()           {}
func (Watched) isEvent()        {}
func (Waiting) isEvent()        {}
func (Gone) isEvent()           {}
func (Yielded) isEvent()        {}
func (Changed) isEvent()        {}
func (StoreChanged) isEvent()   {}
func (DueAt) isEvent()          {}
func (Unknown) isEvent()        {}
func (Registered) isEvent()     {}
func (Tick) isEvent()           {}
func (Claimed) isEvent()        {}
func (Looked) isEvent()         {}
func (Opens) isEvent()          {}
func (QueuesOpened) isEvent()   {}
func (Renewed) isEvent()        {}
func (CancelsFound) isEvent()   {}
func (Recovered) isEvent()      {}
func (Forgotten) isEvent()      {}
func (RetriesScanned) isEvent() {}
func (Stuck) isEvent()          {}
func (Transacted) isEvent()     {}
func (Finished) isEvent()       {}
func (Lost) isEvent()           {}
func (GivenUp) isEvent()        {}
func (Written) isEvent()        {}
func (Checked) isEvent()        {}
func (Closing) isEvent()        {}
func (Abandoned) isEvent()      {}
