package otelamboy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/mongodb/amboy"
)

// observed are the instruments of a queue as a whole.
type observed struct {
	jobs       metric.Int64ObservableGauge
	oldest     metric.Float64ObservableGauge
	workers    metric.Int64ObservableGauge
	saturation metric.Float64ObservableGauge
}

// Observe adds metrics of the queue as a whole, which are read at each collection:
//
//   - amboy.queue.jobs: the jobs by amboy.job.state, which is pending, blocked (a part
//     of pending), running or retrying;
//   - amboy.queue.oldest_pending.age: how long the oldest job that may run has waited;
//   - amboy.worker.limit: the workers of the queue's runner;
//   - amboy.worker.saturation: the part of the workers that run a job, from 0 to 1.
//
// The last two exist if the runner is an amboy.ResizableRunner, as the runners of package pool are.
// The oldest job is found with amboy.JobFinder: a store has an index for that, and a queue by
// reference scans its jobs. stop ends the observation and must be called before the queue is
// closed, or by OnClose of its group; it may be called more than once. Observe returns the meter's
// errors.
func (i *Instrumentation) Observe(q amboy.Queue) (stop func() error, err error) {
	var o observed
	var errs [4]error
	o.jobs, errs[0] = i.meter.Int64ObservableGauge("amboy.queue.jobs",
		metric.WithUnit("{job}"), metric.WithDescription("Jobs in the queue that have not ended, by state."))
	o.oldest, errs[1] = i.meter.Float64ObservableGauge("amboy.queue.oldest_pending.age",
		metric.WithUnit("s"), metric.WithDescription("How long the oldest job that may run has waited."))
	o.workers, errs[2] = i.meter.Int64ObservableGauge("amboy.worker.limit",
		metric.WithUnit("{worker}"), metric.WithDescription("Workers of the queue in this process."))
	o.saturation, errs[3] = i.meter.Float64ObservableGauge("amboy.worker.saturation",
		metric.WithUnit("1"), metric.WithDescription("Part of the workers that run a job."))
	err = errors.Join(errs[:]...)
	if err != nil {
		return nil, fmt.Errorf("making the instruments of queue %q: %w", i.opts.Queue, err)
	}
	registration, err := i.meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		return i.observe(ctx, q, o, to)
	}, o.jobs, o.oldest, o.workers, o.saturation)
	if err != nil {
		return nil, fmt.Errorf("observing queue %q: %w", i.opts.Queue, err)
	}
	return registration.Unregister, nil
}

func (i *Instrumentation) observe(ctx context.Context, q amboy.Queue, o observed, to metric.Observer) error {
	i.observeWorkers(q, o, to)
	stats := q.Stats(ctx)
	if stats.Err != nil {
		return fmt.Errorf("counting the jobs of queue %q: %w", i.opts.Queue, stats.Err)
	}
	for state, n := range map[amboy.JobState]int{
		amboy.StatePending:  stats.Pending,
		amboy.StateBlocked:  stats.Blocked,
		amboy.StateRunning:  stats.Running,
		amboy.StateRetrying: stats.Retrying,
	} {
		to.ObserveInt64(o.jobs, int64(n), metric.WithAttributes(i.attributes(jobStateKey.String(string(state)))...))
	}
	return i.observeOldest(ctx, q, o, to)
}

func (i *Instrumentation) observeWorkers(q amboy.Queue, o observed, to metric.Observer) {
	runner, ok := q.Runner().(amboy.ResizableRunner)
	if !ok || runner.Workers() < 1 {
		return
	}
	workers := runner.Workers()
	common := metric.WithAttributes(i.common...)
	to.ObserveInt64(o.workers, int64(workers), common)
	// A pool that was shrunk may still run more jobs than it has workers.
	to.ObserveFloat64(o.saturation, min(1, float64(i.running.Load())/float64(workers)), common)
}

func (i *Instrumentation) observeOldest(ctx context.Context, q amboy.Queue, o observed, to metric.Observer) error {
	finder, ok := q.(amboy.JobFinder)
	if !ok {
		return nil
	}
	now, oldest := amboy.Now(q), time.Duration(0)
	for info, err := range finder.FindJobs(ctx, amboy.JobQuery{States: []amboy.JobState{amboy.StatePending}}) {
		if err != nil {
			return fmt.Errorf("finding the oldest job of queue %q: %w", i.opts.Queue, err)
		}
		oldest = max(oldest, info.Time.Age(now))
		if !info.Time.WaitUntil.After(info.Time.Created) {
			break // it was due when it was put, and all other jobs were put later
		}
	}
	to.ObserveFloat64(o.oldest, oldest.Seconds(), metric.WithAttributes(i.common...))
	return nil
}
