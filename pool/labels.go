package pool

import (
	"context"
	"runtime/pprof"

	"github.com/mongodb/amboy"
)

// The profiler labels of runs.
const (
	queueLabel = "queue"
	typeLabel  = "job_type"
)

// labels makes the contexts with the profiler labels for the runs of a worker. It caches
// the last one, because consecutive jobs of a worker often have the same type. The zero
// value is ready to use.
type labels struct {
	jobType string
	ctx     context.Context
}

// of returns a context that derives from parent, which must be the same in all calls.
func (l *labels) of(parent context.Context, jobType string) context.Context {
	if l.ctx == nil || l.jobType != jobType {
		l.jobType, l.ctx = jobType, pprof.WithLabels(parent, pprof.Labels(typeLabel, jobType))
	}
	return l.ctx
}

// typeName returns the name of a job's type. It returns "" if the job panics, because the
// panic would otherwise keep its attempt from ending.
func typeName(job amboy.Job) (name string) {
	defer func() {
		if recover() != nil {
			name = ""
		}
	}()
	return job.Type().Name
}
