package core

import (
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// Event is something that has happened. The types below are the only implementations.
type Event interface{ isEvent() }

type (
	// Opened adds a queue, whose workers may wait from now on. It stops an older line of
	// the same queue.
	Opened struct{ Line *Line }
	// Resumed allows claims for a queue.
	Resumed struct{ Line *Line }
	// Stopped dismisses the workers of a queue.
	Stopped struct{ Line *Line }
	// Left removes a queue, after Stopped.
	Left struct{ Line *Line }
	// Watched changes by By the number of watchers that want to know when the queue is idle.
	Watched struct {
		Line *Line
		By   int
	}

	// Waiting reports that a worker waits for a job.
	Waiting struct{ Worker *Worker }
	// Gone reports that a worker no longer waits.
	Gone struct{ Worker *Worker }
	// Yielded answers Yield.
	Yielded struct{}

	// Changed reports that there may be something new to claim: in one queue, or in any
	// queue if Line is nil.
	Changed struct{ Line *Line }
	// Controlled reports that this process changed the settings of a queue.
	Controlled struct{ Line *Line }
	// StoreChanged reports that this process or another changed the store. It may be a
	// request to cancel a running job.
	StoreChanged struct{ driver.Change }
	// DueAt announces that a job becomes due at a time of the wall clock.
	DueAt struct{ Time time.Time }
	// Unknown reports a kind of job that this process does not know, and of which it
	// holds no lease.
	Unknown struct{ Kind driver.Kind }
	// Known reports that claims may accept a kind again.
	Known struct{ Kind driver.Kind }
	// Registered reports that this process may now know kinds that it did not know.
	Registered struct{}
	// RecoverNow asks for a recovery of leases before its time, because leases that are not
	// renewed here may have run out.
	RecoverNow struct{}
	// Tick reports that time has passed: the time of a Wake, or any other.
	Tick struct{}

	// Claimed answers Claim.
	Claimed struct {
		Call    Call
		Records []*driver.Record
		// Next is when more jobs may become claimable because a time comes.
		Next time.Time
		// Waits are the queues whose rate lets no more jobs start for a while.
		Waits []driver.RateWait
		Err   error
	}
	// Looked answers Look.
	Looked struct {
		Call Call
		Work driver.Work
		// StaleIn is the time from a survey until a recovery may have something to do; 0 if it may
		// now.
		StaleIn time.Duration
		Err     error
	}
	// Opens allows the core to open queues that have work: when jobs become due, after changes
	// by this process, and at an interval.
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

	// Stuck reports that a run continues although it should have returned.
	Stuck struct{ Run *Run }
	// Transacted reports that the end of a run is being written in a transaction of its job.
	Transacted struct{ Run *Run }
	// Finished reports that a run has returned, or is not started, and how it ends.
	Finished struct {
		Run *Run
		End End
	}
	// Lost reports that another process has the lease of a run.
	Lost struct{ Lease driver.Lease }
	// GivenUp reports that the caller no longer waits until the end of a run is written.
	GivenUp struct{ Run *Run }
	// Written answers Complete and Release. Errs holds one error per run, unless the whole
	// call failed with Err.
	Written struct {
		Call Call
		Errs []error
		Err  error
		// Final is true if a retry can't change Err.
		Final bool
	}
	// Checked answers Check.
	Checked struct {
		Run     *Run
		Written bool
	}

	// Closing announces that no more runs will start, and that ends are to be written at once.
	Closing struct{}
	// Abandoned reports that the caller no longer waits for any end.
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
func (Controlled) isEvent()     {}
func (StoreChanged) isEvent()   {}
func (DueAt) isEvent()          {}
func (Unknown) isEvent()        {}
func (Known) isEvent()          {}
func (Registered) isEvent()     {}
func (RecoverNow) isEvent()     {}
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
