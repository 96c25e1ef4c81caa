package pool

import (
	"context"
	"runtime/pprof"

	"github.com/mongodb/amboy"
)

// The labels of runs in profiles.
const (
	queueLabel = "queue"
	typeLabel  = "job_type"
)

// labels makes the contexts with the profiler labels of the runs of a worker. It keeps the
// last one: most jobs of a worker are of one type. The zero value is ready.
type labels struct {
	jobType string
	ctx     context.Context
}

// of returns a context that derives from parent, which must always be the same.
func (l *labels) of(parent context.Context, jobType string) context.Context {
	if l.ctx == nil || l.jobType != jobType {
		l.jobType, l.ctx = jobType, pprof.WithLabels(parent, pprof.Labels(typeLabel, jobType))
	}
	return l.ctx
}

// typeName is the name of a job's type; empty if the job panics, for which its run would
// not end otherwise.
func typeName(job amboy.Job) (name string) {
	defer func() {
		if recover() != nil {
			name = ""
		}
	}()
	return job.Type().Name
}
