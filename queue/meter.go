package queue

import (
	"maps"
	"slices"
	"sync"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/local"
)

// ProcessMeasures is what this process has done for the queues of a Store since it opened
// them. Counts do not decrease while a queue or group is open. All are 0, except Workers,
// Running and Attempts, if jobs are held by reference: they have no leases.
type ProcessMeasures struct {
	// Workers is the number of jobs that can run at once in the started queues of this
	// process; 0 if their runners do not report it. Running is the number of jobs that do.
	Workers, Running int
	// Claims counts the calls that claim jobs, FailedClaims the failed ones, and ClaimedJobs
	// the jobs that were claimed.
	Claims, FailedClaims, ClaimedJobs uint64
	// Renewals counts the calls that renew leases. LateRenewals counts the calls that failed
	// or took longer than a quarter of the lease time, after which the next one is due.
	Renewals, LateRenewals uint64
	// Fenced counts the runs that were canceled because their lease was not renewed in
	// time. Taken counts the runs that were canceled because the store gave their lease to
	// another process, or because an operator ended the job.
	Fenced, Taken uint64
	// Interruptions counts the running jobs that this process took back from processes that
	// had stopped renewing their leases.
	Interruptions uint64
	// Parked counts the jobs that this process parked by itself: jobs that can't be decoded
	// or were interrupted too often.
	Parked uint64
	// Attempts are the attempts that ended, by queue and type, in the order in which the
	// first of each ended. There are at most 500; further queues and types share one whose
	// queue and type are empty.
	Attempts []activity.Total
}

// Measure returns what this process has done for the queues of the store. A queue of a
// driver group has the measures of all queues of the group in this process. It does not
// read the store.
func (s *Store) Measure() ProcessMeasures {
	if s.measure == nil {
		return ProcessMeasures{}
	}
	return s.measure()
}

func measureEngine(e *engine.Engine) ProcessMeasures {
	workers, running := e.Load()
	return ProcessMeasures{
		Workers: workers, Running: running,
		Claims: e.Meter.Claims.Load(), FailedClaims: e.Meter.FailedClaims.Load(), ClaimedJobs: e.Meter.ClaimedJobs.Load(),
		Renewals: e.Meter.Renewals.Load(), LateRenewals: e.Meter.LateRenewals.Load(),
		Fenced: e.Meter.Fenced.Load(), Taken: e.Meter.Taken.Load(),
		Interruptions: e.Meter.Interruptions.Load(), Parked: e.Meter.Parked.Load(),
		Attempts: e.Activity.Totals(),
	}
}

// add adds the measures of other queues of this process.
func (m *ProcessMeasures) add(other ProcessMeasures) {
	m.Workers += other.Workers
	m.Running += other.Running
	m.Claims += other.Claims
	m.FailedClaims += other.FailedClaims
	m.ClaimedJobs += other.ClaimedJobs
	m.Renewals += other.Renewals
	m.LateRenewals += other.LateRenewals
	m.Fenced += other.Fenced
	m.Taken += other.Taken
	m.Interruptions += other.Interruptions
	m.Parked += other.Parked
	m.Attempts = append(m.Attempts, other.Attempts...)
}

func measureEngines(engines []*engine.Engine) (sum ProcessMeasures) {
	for _, e := range engines {
		sum.add(measureEngine(e))
	}
	return sum
}

func measureLocal(q *local.Queue) ProcessMeasures {
	workers, running := q.Load()
	return ProcessMeasures{Workers: workers, Running: running, Attempts: q.Announcer.Activity.Totals()}
}

// groupMeter adds up the measures of the queues of a local group. It keeps the
// measures of closed queues, so that counts do not decrease. What such a queue did after it
// was last measured is not counted.
type groupMeter struct {
	mu   sync.Mutex
	last map[amboy.Queue]ProcessMeasures
	gone ProcessMeasures
	// place is the index of a queue and a type in Attempts, the same in every result.
	place map[attemptKey]int
}

type attemptKey struct{ queue, jobType string }

func (g *localGroup) measure() ProcessMeasures {
	m := &g.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	last := map[amboy.Queue]ProcessMeasures{}
	open := g.OpenQueues()
	for _, name := range slices.Sorted(maps.Keys(open)) {
		if s, ok := StoreOf(open[name]); ok {
			measures := s.Measure()
			for n := range measures.Attempts {
				measures.Attempts[n].Queue = name
			}
			last[open[name]] = measures
		}
	}
	for q, measures := range m.last {
		if _, isOpen := last[q]; !isOpen {
			measures.Workers, measures.Running = 0, 0
			m.gone.add(measures)
			m.gone.Attempts = m.merged(m.gone.Attempts)
		}
	}
	m.last = last
	sum := ProcessMeasures{}
	sum.add(m.gone)
	for _, measures := range last {
		sum.add(measures)
	}
	sum.Attempts = m.merged(sum.Attempts)
	return sum
}

// merged returns the totals with one for each queue and type. If there are
// activity.MaxRows, further ones share the one whose queue and type are empty.
func (m *groupMeter) merged(totals []activity.Total) []activity.Total {
	if m.place == nil {
		m.place = map[attemptKey]int{{}: 0}
	}
	sums := make([]activity.Total, len(m.place), len(m.place)+len(totals))
	for _, t := range totals {
		key := attemptKey{t.Queue, t.Type}
		n, found := m.place[key]
		switch {
		case found:
		case len(m.place) >= activity.MaxRows:
			n = 0
		default:
			n = len(sums)
			m.place[key] = n
			sums = append(sums, activity.Total{})
		}
		sums[n].Add(t)
	}
	for key, n := range m.place {
		sums[n].Queue, sums[n].Type = key.queue, key.jobType
	}
	return sums
}
