package core

import (
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// Command is something that the shell must do. The types below are the only
// implementations.
type Command interface{ isCommand() }

// Call identifies a call of the store, so that its answer is recognized whenever it comes.
// The shell bounds each call by its Limit, and answers with an error after that.
type Call struct {
	ID    uint64
	Limit time.Duration
}

type (
	// Yield asks the shell to let other goroutines run, and then to send Yielded.
	Yield struct{}
	// Wake asks for a Tick at a time. It replaces the previous Wake.
	Wake struct{ At time.Duration }

	// Claim asks the store for records. The answer is Claimed.
	Claim struct {
		Call    Call
		Demands []driver.Demand
		Limit   int
		// Ahead is how many of the records are for workers that do not wait yet.
		Ahead int
		// Except holds the kinds that this process does not know. It must not be changed.
		Except []driver.Kind
	}
	// Look queries the store for the queues that have work, and in a Survey also for leases that
	// have run out, or do so Within a time. The answer is Looked.
	Look struct {
		Call   Call
		Survey bool
		Within time.Duration
	}
	// OpenQueues opens queues because they have work. The answer is QueuesOpened, when they
	// are open or opening them has failed.
	OpenQueues struct{ Names []string }
	// Renew asks the store to extend leases. The answer is Renewed.
	Renew struct {
		Call   Call
		Leases []driver.Lease
	}
	// CheckCancels asks the store which runs are to be canceled. The answer is
	// CancelsFound.
	CheckCancels struct{ Call Call }
	// Recover asks the store to hand back leases that ran out, except Keep: the leases of
	// runs that have not returned here. The answer is Recovered.
	Recover struct {
		Call Call
		Keep []driver.Lease
	}
	// Forget asks the store to remove finished jobs whose retention is over. The answer is
	// Forgotten.
	Forget struct{ Call Call }
	// ScanRetries asks for a scan for jobs that await a retry: in All queues, or in those that were
	// resumed since the last scan. The answer is RetriesScanned.
	ScanRetries struct {
		Call Call
		All  bool
	}

	// Start gives a run to a worker.
	Start struct {
		Worker *Worker
		Run    *Run
	}
	// Dismiss sends a worker away without a run.
	Dismiss struct{ Worker *Worker }
	// Expire asks for the end of a run whose dispatch-by time has passed. The answer is
	// Finished.
	Expire struct{ Run *Run }
	// Park asks for the end of a run whose job was interrupted too often. The answer is
	// Finished.
	Park struct{ Run *Run }
	// Cancel ends the context of a run.
	Cancel struct {
		Run   *Run
		Cause error
	}
	// Drained reports that a watched queue had nothing to claim.
	Drained struct{ Line *Line }

	// Complete asks the store to end runs with their End.Record. The answer is Written.
	Complete struct {
		Call Call
		Runs []*Run
	}
	// Release asks the store to take leases back according to their End.HandBack. The
	// answer is Written.
	Release struct {
		Call Call
		Runs []*Run
	}
	// Refused reports the first failure to write the end of a run. The write will be
	// retried.
	Refused struct {
		Run *Run
		Err error
	}
	// Check asks whether the end of a run was written by a call that reported an error.
	// The answer is Checked.
	Check struct{ Run *Run }
	// Done reports that a run is over. Err is nil if the store has its end.
	Done struct {
		Run *Run
		Err error
	}
	// Report describes a background call that failed.
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
