package cli_test

import (
	"context"
	"io"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// growing is a service in which more jobs have failed when the action begins than when they were
// counted. It acts on the newest first.
type growing struct {
	*fake
	counted, now int
}

func (g *growing) Act(_ context.Context, req management.ActRequest) (management.Acted, error) {
	jobs := g.now
	if req.DryRun && req.Cursor == "" {
		jobs = g.counted
	}
	from, _ := strconv.Atoi(req.Cursor)
	acted := management.Acted{Done: min(req.Limit, jobs-from)}
	if from+acted.Done < jobs {
		acted.Next = strconv.Itoa(from + acted.Done)
	}
	return acted, nil
}

// Jobs that fail between the count and the action push out older ones, which the operator takes for
// retried.
func TestRetryDidNotSayThatItLeftJobs(t *testing.T) {
	retry := func(counted, now int, flags ...string) result {
		service := &growing{fake: newFake(), counted: counted, now: now}
		return run(t, service, append([]string{"jobs", "retry", "--state", "failed", "--yes"}, flags...)...)
	}
	assert.Equal(t, result{
		out:    "retried: 5, skipped: 0\n",
		errOut: "amboy: 3 older jobs that match were left, because others have come since the count: repeat the command\n",
	}, retry(5, 8))
	assert.Equal(t, result{out: "retried: 5, skipped: 0\n"}, retry(5, 5))
	assert.Equal(t, result{out: "retried: 2, skipped: 0\n"}, retry(5, 8, "--limit", "2"), "as the operator wants it")
}

// restarted is a service that fails when the jobs that are left are counted.
type restarted struct{ *growing }

func (r restarted) Act(ctx context.Context, req management.ActRequest) (management.Acted, error) {
	if req.DryRun && req.Cursor != "" {
		return management.Acted{}, io.ErrUnexpectedEOF
	}
	return r.growing.Act(ctx, req)
}

// The action was done, and the operator only read that a count had failed.
func TestTheResultOfAnActionWasLostWhenTheServiceFailedAfterIt(t *testing.T) {
	service := restarted{&growing{fake: newFake(), counted: 5, now: 8}}
	got := run(t, service, "jobs", "retry", "--state", "failed", "--yes")
	assert.Equal(t, "retried: 5, skipped: 0\n", got.out)
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.errOut, "unexpected EOF")
}

// fading is a service that has the first of some jobs no more, and fails then.
type fading struct {
	*fake
	asked int
}

func (f *fading) ActOn(context.Context, string, string, management.Action) (management.Acted, error) {
	f.asked++
	if f.asked == 1 {
		return management.Acted{}, amboy.NewJobNotFoundError("no job")
	}
	return management.Acted{}, io.ErrUnexpectedEOF
}

// The exit code said that a job does not exist, which is for a command that acted on all others.
func TestTheExitCodeHidThatTheServiceFailedBeforeTheLastJob(t *testing.T) {
	service := &fading{fake: newFake()}
	got := run(t, service, "jobs", "delete", "mail", "a", "b", "c")
	assert.Equal(t, 1, got.code)
	assert.Equal(t, 2, service.asked)
}
