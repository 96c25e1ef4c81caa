package main

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/grip"
	"github.com/pkg/errors"
)

const timeFormat = "2006-01-02.15-04-05.000"

var regions = []string{"large-east", "large-west", "south"}

// Crons contains the intervals at which jobs are put.
type Crons struct {
	Stats     time.Duration
	Provision time.Duration
}

// startCrons puts jobs at intervals until ctx ends. Each schedule starts in the past, at a
// multiple of its interval, so that all processes put the same jobs at the same time.
func startCrons(ctx context.Context, env *Environment, every Crons) {
	conf := amboy.QueueOperationConfig{
		ContinueOnError:             true,
		LogErrors:                   false,
		EnableDuplicateJobReporting: false,
		RespectThreshold:            true,
		Threshold:                   1000,
	}
	amboy.IntervalQueueOperation(ctx, env.Local, every.Stats, time.Now().Truncate(every.Stats), conf,
		amboy.GroupQueueOperationFactory(putStats(every.Stats), putDaily()))

	var ops []amboy.GroupQueueOperation
	for _, region := range regions {
		ops = append(ops, amboy.GroupQueueOperation{Queue: region, Operation: putProvisioning(region, every.Provision)})
	}
	amboy.IntervalGroupQueueOperation(ctx, env.Remote, every.Provision, time.Now().Truncate(every.Provision), conf, ops...)
}

func putStats(interval time.Duration) amboy.QueueOperation {
	return amboy.ScheduleJobFactory(func() amboy.Job {
		return NewStatsJob(time.Now().Truncate(interval).Format(timeFormat))
	})
}

func putDaily() amboy.QueueOperation {
	return amboy.ScheduleManyJobsFactory(func() []amboy.Job {
		return []amboy.Job{NewStatsJob("daily." + time.Now().Format("2006-01-02"))}
	})
}

// putProvisioning puts a job for the host of a region. It ignores the error if the previous
// job still holds the scope.
func putProvisioning(region string, interval time.Duration) amboy.QueueOperation {
	return func(ctx context.Context, q amboy.Queue) error {
		j := NewProvisionHostJob(region+"-host", time.Now().Truncate(interval).Format(timeFormat))
		err := amboy.EnqueueUniqueJob(ctx, q, j)
		if amboy.IsDuplicateJobScopeError(err) {
			return nil
		}
		grip.Error(ctx, err)
		return errors.Wrapf(err, "putting a job for region %q", region)
	}
}
