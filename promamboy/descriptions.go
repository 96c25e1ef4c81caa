package promamboy

import "github.com/prometheus/client_golang/prometheus"

// descriptions are those of all metrics.
var descriptions []*prometheus.Desc

func describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("amboy_"+name, help, labels, nil)
	descriptions = append(descriptions, d)
	return d
}

// The metrics of the store.
var (
	storeUp          = describe("store_up", "Whether the store could be read: 1 or 0.")
	storeReadSeconds = describe("store_read_seconds", "How long the last read of the store took.")
	jobs             = describe("jobs", "Jobs that have not ended, over all processes.", "queue", "state")
	typeJobs         = describe("jobs_by_type", "Jobs that have not ended, over all processes, when they were last counted by type.", "queue", "type", "state")
	typeJobsAge      = describe("jobs_by_type_age_seconds", "How long ago jobs were last counted by type.")
	oldestReady      = describe("oldest_ready_job_age_seconds",
		"How long the oldest ready job could have run already; 0 if there is none.", "queue")
	queues        = describe("queues", "Queues in the store.")
	pausedQueues  = describe("paused_queues", "Queues that are paused.")
	workersWanted = describe("workers_wanted",
		"Processes that could be busy: running and ready jobs, divided by the workers of a process.")
)

// The metrics of the process.
var (
	processWorkers = describe("process_workers", "Jobs that this process can run at once.")
	processRunning = describe("process_running_jobs", "Jobs that this process runs.")
	attempts       = describe("attempts_total", "Attempts that ended, by outcome: succeeded, failed or retried.",
		"queue", "type", "outcome")
	waitSeconds   = describe("job_wait_seconds", "How long attempts waited since they could start.", "queue", "type")
	runSeconds    = describe("job_run_seconds", "How long attempts ran.", "queue", "type")
	claims        = describe("claims_total", "Calls of the store that claim jobs.")
	claimErrors   = describe("claim_errors_total", "Calls that claim jobs and failed.")
	claimedJobs   = describe("claimed_jobs_total", "Jobs that were claimed.")
	renewals      = describe("lease_renewals_total", "Calls of the store that renew leases.")
	lateRenewals  = describe("late_lease_renewals_total", "Calls that renew leases and failed or took longer than a quarter of the lease time.")
	leasesLost    = describe("lost_leases_total", "Runs that were canceled because their lease was not renewed in time (fenced), or is another's (taken).", "reason")
	interruptions = describe("interruptions_total", "Running jobs that were taken back from processes that had stopped renewing their leases.")
	parkedJobs    = describe("parked_jobs_total", "Jobs that this process parked because they can't be decoded or were interrupted too often.")
)
