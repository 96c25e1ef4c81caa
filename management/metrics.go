package management

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// Meter measures queues and the process. The Inspectors of this package are Meters.
type Meter interface {
	// MeasureQueues counts the jobs of each queue, ordered by name. It blocks as long as
	// the store takes, and stops with an error when ctx ends.
	MeasureQueues(ctx context.Context) ([]QueueMeasures, error)
	// MeasureTypes returns the numbers of jobs that have not ended by queue and type, as
	// queue.Store.TypeCounts does: in a database they are as old as At says.
	MeasureTypes(ctx context.Context) (TypeMeasures, error)
	// MeasureProcess returns what this process has done for the queues. It does not read
	// the store. All is 0 if no queue is open in this process.
	MeasureProcess() ProcessMeasures
}

var _ Meter = (*inspector)(nil)

// QueueMeasures are the numbers of jobs of a queue, over all processes.
type QueueMeasures struct {
	Name string
	// Ready, Scheduled, Blocked and Parked count the jobs that have not started. A job
	// whose time has come counts as scheduled until a process next claims.
	Ready, Scheduled, Blocked, Parked int
	// Running counts the running jobs, and Retrying the attempts that await a retry.
	Running, Retrying int
	// Paused is true if no job may start, because the queue is paused or its rate is 0, and
	// MaxRunning is the number of jobs that may run
	// at once, over all processes; 0 means no limit.
	Paused     bool
	MaxRunning int
	// Rate is the rate at which jobs may start, over all processes; nil means no limit.
	Rate *amboy.Rate
	// OldestReady is the time since which the first ready job could have started; zero if
	// there is none. It is set for the MaxOldestReady queues with the most ready jobs.
	OldestReady time.Time
}

// TypeMeasures are the numbers of jobs that have not ended, by queue and type.
type TypeMeasures = queue.TypeCounts

// MaxOldestReady is the number of queues for which MeasureQueues finds the oldest ready job.
const MaxOldestReady = 25

// ProcessMeasures are what a process has done since it opened its queues.
type ProcessMeasures = queue.ProcessMeasures

// AttemptMeasures are the attempts at jobs of one type in one queue that ended in this
// process.
type AttemptMeasures = activity.Total

func (i *inspector) MeasureQueues(ctx context.Context) ([]QueueMeasures, error) {
	if err := i.check(); err != nil {
		return nil, fmt.Errorf("measuring queues: %w", err)
	}
	measures, err := i.measureQueues(ctx)
	if err != nil {
		return nil, fmt.Errorf("measuring queues: %w", err)
	}
	return measures, nil
}

func (i *inspector) measureQueues(ctx context.Context) ([]QueueMeasures, error) {
	infos, err := i.store.QueueInfos(ctx, driver.QueueRequest{})
	if err != nil {
		return nil, err
	}
	if allowed := i.store.Queues(); len(allowed) > 0 {
		infos = slices.DeleteFunc(infos, func(info driver.QueueInfo) bool { return !slices.Contains(allowed, info.Name) })
	}
	measures := make([]QueueMeasures, len(infos))
	byDepth := make([]*QueueMeasures, len(infos))
	for n, info := range infos {
		measures[n] = measuresOf(info)
		byDepth[n] = &measures[n]
	}
	slices.SortStableFunc(byDepth, func(a, b *QueueMeasures) int { return cmp.Compare(b.Ready, a.Ready) })
	var names []string
	for _, m := range byDepth[:min(MaxOldestReady, len(byDepth))] {
		if m.Ready > 0 {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return measures, nil
	}
	oldest, err := i.store.Admin().OldestReady(ctx, names, i.store.Now())
	for _, m := range byDepth[:len(names)] {
		m.OldestReady = oldest[m.Name]
	}
	return measures, err
}

// MeasureTypes leaves out queues outside this inspector.
func (i *inspector) MeasureTypes(ctx context.Context) (TypeMeasures, error) {
	err := i.check()
	var measures TypeMeasures
	if err == nil {
		measures, err = i.store.TypeCounts(ctx)
	}
	if err != nil {
		return TypeMeasures{}, fmt.Errorf("counting jobs by type: %w", err)
	}
	if allowed := i.store.Queues(); len(allowed) > 0 {
		measures.Counts = slices.DeleteFunc(measures.Counts, func(c driver.TypeCount) bool { return !slices.Contains(allowed, c.Queue) })
		measures.Others = nil
	}
	return measures, nil
}

func measuresOf(info driver.QueueInfo) QueueMeasures {
	s := info.Stats
	return QueueMeasures{
		Name:      info.Name,
		Ready:     info.Ready(),
		Scheduled: info.Scheduled,
		Blocked:   s.Blocked,
		Parked:    info.Parked,
		Running:   s.Running,
		Retrying:  s.Retrying,
		Paused:    info.Control.IsStopped(),

		MaxRunning: info.Control.MaxRunning,
		Rate:       info.Control.Rate,
	}
}

// MeasureProcess leaves out the attempts of queues outside this inspector.
func (i *inspector) MeasureProcess() ProcessMeasures {
	if i.unready != nil {
		return ProcessMeasures{}
	}
	m := i.store.Measure()
	if allowed := i.store.Queues(); len(allowed) > 0 {
		m.Attempts = slices.DeleteFunc(m.Attempts, func(t AttemptMeasures) bool { return !slices.Contains(allowed, t.Queue) })
	}
	return m
}
