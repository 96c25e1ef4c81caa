package schedule

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// Definition is a *job.Definition or a *job.ResultDefinition.
type Definition[A any] interface {
	New(args A, opts ...job.Option) (amboy.Job, error)
}

// JobOf returns a JobFunc that makes jobs of a definition. args returns the arguments for a
// tick.
func JobOf[A any](d Definition[A], args func(tick time.Time) A, opts ...job.Option) JobFunc {
	return func(tick time.Time) (amboy.Job, error) { return d.New(args(tick), opts...) }
}
