package core

import (
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// Command is something to be done. The types below are all that there are.
type Command interface{ isCommand() }

// Call names a call of the store, so that its answer is known whenever it comes. The
// shell bounds each call by its Limit, and answers with an error after that.
type Call struct {
	ID    uint64
	Limit time.Duration
}

type (
	// Yield asks to let other goroutines run, and to come back with Yielded.
	Yield struct{}
	// Wake asks for a Tick at a time. It replaces the one before.
	Wake struct{ At time.Duration }

	// Claim asks the store for records. The answer is Claimed.
	Claim struct {
		Call    Call
		Demands []driver.Demand
		Limit   int
		// Except are the kinds that this process does not know. It must not be changed.
		Except []driver.Kind
	}
	// Look asks the store which queues have work. The answer is Looked.
	Look struct{ Call Call }
	// OpenQueues asks for queues to be opened, because they have work. The answer is
	// QueuesOpened, when that is done or has failed.
	OpenQueues struct{ Names []string }
	// Renew asks the store to extend leases. The answer is Renewed.
	Renew struct {
		Call   Call
		Leases []driver.Lease
	}
	// CheckCancels asks the store which runs are to be canceled. The answer is
	// CancelsFound.
	CheckCancels struct{ Call Call }
	// Recover asks the store to hand back leases that ran out, but for those of runs
	// that have not returned here. The answer is Recovered.
	Recover struct {
		Call Call
		Keep []driver.Lease
	}
	// Forget asks to remove finished jobs, where that is due. The answer is Forgotten.
	Forget struct{ Call Call }
	// ScanRetries asks to look for jobs that await a retry. The answer is
	// RetriesScanned.
	ScanRetries struct{ Call Call }

	// Start gives a run to a worker.
	Start struct {
		Worker *Worker
		Run    *Run
	}
	// Dismiss sends a worker away without one.
	Dismiss struct{ Worker *Worker }
	// Expire asks to end a run that may not begin any more, by Finished.
	Expire struct{ Run *Run }
	// Park asks to set aside a job that was interrupted too often, by Finished.
	Park struct{ Run *Run }
	// Cancel ends the context of a run.
	Cancel struct {
		Run   *Run
		Cause error
	}
	// Drained says that a queue that is watched had nothing to claim.
	Drained struct{ Line *Line }

	// Complete asks the store to end runs by their End.Record. The answer is Written.
	Complete struct {
		Call Call
		Runs []*Run
	}
	// Release asks the store to take leases back as their End.HandBack says. The answer
	// is Written.
	Release struct {
		Call Call
		Runs []*Run
	}
	// Refused says that the store did not take the end of a run for the first time, and
	// that it will be tried again.
	Refused struct {
		Run *Run
		Err error
	}
	// Check asks whether the end of a run was written by a call that seemed to fail.
	// The answer is Checked.
	Check struct{ Run *Run }
	// Done says that a run is over, and what became of its end: nil where the store has
	// it.
	Done struct {
		Run *Run
		Err error
	}
	// Report says that a call in the background failed.
	Report struct {
		What string
		Err  error
	}
)

func (Yield) isCommand()        {}
func (Wake) isCommand()         {}
func (Claim) isCommand()        {}
func (Look) isCommand()         {}
func (OpenQueues) isCommand()   {}
func (Renew) isCommand()        {}
func (CheckCancels) isCommand() {}
func (Recover) isCommand()      {}
func (Forget) isCommand()       {}
func (ScanRetries) isCommand()  {}
func (Start) isCommand()        {}
func (Dismiss) isCommand()      {}
func (Expire) isCommand()       {}
func (Park) isCommand()         {}
func (Cancel) isCommand()       {}
func (Drained) isCommand()      {}
func (Complete) isCommand()     {}
func (Release) isCommand()      {}
func (Refused) isCommand()      {}
func (Check) isCommand()        {}
func (Done) isCommand()         {}
func (Report) isCommand()       {}
