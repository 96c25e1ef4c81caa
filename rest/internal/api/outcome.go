package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/rest/internal/guard"
	"github.com/mongodb/amboy/rest/internal/web"
)

// Outcome is how a job ended, if it has.
type Outcome struct {
	management.JobRef
	State amboy.JobState `json:"state"`
	// Ended is true if the job has ended for good.
	Ended bool `json:"ended" description:"Whether the job has ended for good"`
	// Result is the job's result. If it is hidden, ResultHidden is why.
	Result       json.RawMessage `json:"result,omitempty"`
	ResultHidden string          `json:"result_hidden,omitempty"`
	// Error is the last error of the job.
	Error string `json:"error,omitempty" description:"The last error"`
}

// Created is the answer to a request that creates a job.
type Created struct {
	management.Created
	Outcome *Outcome `json:"outcome,omitempty" description:"How the job ended, if the request waited"`
}

type outcomeInput struct {
	jobPath
	Wait Duration `query:"wait" description:"How long to wait for the end of the job, at most 10m; the default is not to wait"`
}

func checkWait(wait Duration) error {
	if time.Duration(wait) > outside.MaxWait {
		return invalid("wait", time.Duration(wait).String(), fmt.Sprintf("must be at most %s", outside.MaxWait))
	}
	return nil
}

func getOutcome(c *call) (answer, error) {
	var in outcomeInput
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	if err := checkWait(in.Wait); err != nil {
		return answer{}, err
	}
	outcome, err := c.outcome(management.JobRef{Queue: string(in.Queue), ID: string(in.ID)}, time.Duration(in.Wait))
	return ok(outcome), err
}

// outcome returns how a job ended. It waits for that, up to a time.
func (c *call) outcome(ref management.JobRef, wait time.Duration) (Outcome, error) {
	shown, err := c.readOutcome(ref)
	if err != nil || shown.Ended || wait == 0 {
		return shown, err
	}
	d, err := c.dispatcher()
	if err != nil {
		return shown, err
	}
	ctx, leave, err := c.mayWait(wait)
	if err != nil {
		return shown, err
	}
	ended, err := d.WaitForEnd(ctx, ref.Queue, ref.ID)
	isOver := ctx.Err() != nil // the time is over, the server shuts down, or the client is gone
	leave()
	if !ended && !isOver {
		return shown, err
	}
	return c.readOutcome(ref)
}

func (c *call) readOutcome(ref management.JobRef) (Outcome, error) {
	job, err := c.Job(c.r.Context(), ref.Queue, ref.ID)
	return Outcome{
		JobRef: ref, State: job.State, Ended: job.State.IsFinal(), Result: job.Result, ResultHidden: job.ResultHidden, Error: lastOf(job.Errors),
	}, err
}

func lastOf(errs []amboy.AttemptError) string {
	if len(errs) == 0 {
		return ""
	}
	return errs[len(errs)-1].Error
}

// mayWait returns a context that ends after a time, or when the server shuts down. leave must
// be called when the request no longer waits.
func (c *call) mayWait(wait time.Duration) (ctx context.Context, leave func(), err error) {
	left, err := c.waiting.Enter(c.guard.Client(c.r))
	if err != nil {
		return nil, nil, err
	}
	web.LetWait(c.w, wait)
	ctx, cancel := context.WithTimeout(c.r.Context(), wait)
	stop := context.AfterFunc(c.guard.Life(c.r), cancel)
	return ctx, func() {
		stop()
		cancel()
		left()
	}, nil
}

// allowOutcome returns an error if a request may not read how the job ended that it is about
// to create.
func (c *call) allowOutcome(job management.NewJob) error {
	return c.guard.Allow(c.r, guard.Access{Action: guard.Read, Queue: job.Queue, ID: job.ID})
}
