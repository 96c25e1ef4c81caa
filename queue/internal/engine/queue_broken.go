package engine

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
)

// A job whose own code panics, or ends its goroutine, can't be asked how it ended. Its run would be
// renewed for ever. So it ends as failed, in its stored form.

var _ amboy.BrokenJobEnder = (*Queue)(nil)

// EndBroken implements amboy.BrokenJobEnder.
func (q *Queue) EndBroken(ctx context.Context, j amboy.Job, broken error) error {
	run := q.Engine.take(j)
	if run == nil {
		return fmt.Errorf("ending a broken job of queue %q: it does not run here: %w", q.ID(), amboy.ErrLeaseLost)
	}
	return q.endBrokenAndWait(ctx, run, broken)
}

// unlessBroken calls do, which ends a run that was taken. If the job is broken, it ends the run as
// failed.
func (q *Queue) unlessBroken(ctx context.Context, run *core.Run, do func() error) error {
	return contain.Broken(do, func(broken error) error {
		if run.Then != nil {
			return broken // its end was begun, before its goroutine ended
		}
		return q.endBrokenAndWait(ctx, run, broken)
	})
}

func (q *Queue) endBrokenAndWait(ctx context.Context, run *core.Run, broken error) error {
	done := q.Engine.Result()
	q.endBroken(ctx, run, broken, func(err error) { done <- err })
	return q.Engine.WaitForEnd(ctx, run, done)
}

// endBroken ends the run of a broken job as failed, and calls then with the result. It may return
// before that.
func (q *Queue) endBroken(ctx context.Context, run *core.Run, broken error, then func(error)) {
	if run.Record == nil { // it does not run here
		q.Engine.drop(run)
		then(broken)
		return
	}
	logging.Error(ctx, q.failure("job failed, because its own methods did", run.Record.JobID(), broken))
	q.endUncalled(ctx, run, "", broken, then)
}
