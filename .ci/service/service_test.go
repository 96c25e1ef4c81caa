package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"github.com/pkg/errors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// uriVariable contains the URI of a MongoDB server. If it is empty, jobs are in memory.
const uriVariable = "AMBOY_TEST_MONGODB_URI"

// fleet is a running service.
type fleet struct {
	*Environment
	ctx context.Context
	url string
	log *send.InternalSender
}

func startFleet(t *testing.T) *fleet {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	log, err := send.NewInternalLogger("fleet", send.LevelInfo{Default: level.Info, Threshold: level.Info})
	require.NoError(t, err)
	settings := Settings{MongoDBURI: os.Getenv(uriVariable), DB: fmt.Sprintf("fleet_%d", time.Now().UnixNano()), Log: log}
	env, err := NewEnvironment(ctx, settings)
	require.NoError(t, err)
	SetEnvironment(env)
	server := httptest.NewServer(env.Routes())
	t.Cleanup(func() {
		server.Close()
		if env.client != nil {
			assert.NoError(t, env.client.Database(settings.DB).Drop(ctx))
		}
		assert.NoError(t, env.Close(ctx))
		cancel()
	})
	return &fleet{Environment: env, ctx: ctx, url: server.URL, log: log}
}

func (f *fleet) queue(t *testing.T, region string) amboy.Queue {
	q, err := f.Remote.Get(f.ctx, region)
	require.NoError(t, err)
	return q
}

// amboy runs the command line of the queues.
func (f *fleet) amboy(token string, command ...string) (output string, err error) {
	var out bytes.Buffer
	app := newApp(f.ctx)
	app.Writer = &out
	args := append([]string{"fleet", "amboy", "--token", token}, command...)
	err = app.Run(append(args, "--url", f.url))
	return out.String(), err
}

func receive(t *testing.T, ctx context.Context, ids <-chan string) string {
	select {
	case id := <-ids:
		return id
	case <-ctx.Done():
		require.Fail(t, "the job did not run")
		return ""
	}
}

func TestCronsProvisionEachRegion(t *testing.T) {
	f := startFleet(t)
	crons, stop := context.WithCancel(f.ctx)
	defer stop()
	startCrons(crons, f.Environment, Crons{Stats: 50 * time.Millisecond, Provision: 50 * time.Millisecond})
	missing := map[string]bool{}
	for _, region := range regions {
		missing[region+"-host"] = true
	}
	for len(missing) > 0 {
		delete(missing, receive(t, f.ctx, f.Hosts.provisioned))
	}
	stop()
	assert.Subset(t, f.Remote.Queues(f.ctx), regions)
}

func TestFailedJobIsRetried(t *testing.T) {
	f := startFleet(t)
	q := f.queue(t, "large-east")
	j := NewProvisionHostJob("host-1", "first")
	require.NoError(t, q.Put(f.ctx, j))
	require.True(t, amboy.WaitJob(f.ctx, j, q))
	assert.Equal(t, 2, f.Hosts.Attempts("host-1"))
	last, ok := q.Get(f.ctx, j.ID())
	require.True(t, ok)
	assert.Equal(t, 1, last.RetryInfo().CurrentAttempt)
	require.NoError(t, last.Error())
	require.True(t, amboy.WithRetryableQueue(q, func(retryable amboy.RetryableQueue) {
		attempts, err := retryable.GetAllAttempts(f.ctx, j.ID())
		require.NoError(t, err)
		assert.Len(t, attempts, 2)
	}))
	require.True(t, amboy.IsDuplicateJobError(errors.Wrap(q.Put(f.ctx, NewProvisionHostJob("host-1", "first")), "putting")))

	require.NoError(t, f.sender.Flush(f.ctx))
	var rendered []string
	for f.log.HasMessage() {
		rendered = append(rendered, f.log.GetMessage().Rendered)
	}
	assert.Contains(t, strings.Join(rendered, "\n"), "provisioned host")
}

func TestScopeIsHeldUntilAnOperatorCompletesTheJob(t *testing.T) {
	f := startFleet(t)
	q := f.queue(t, "south")
	later := NewProvisionHostJob("host-2", "later")
	later.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	require.NoError(t, q.Put(f.ctx, later))
	other := NewProvisionHostJob("host-2", "other")
	err := amboy.EnqueueUniqueJob(f.ctx, q, other)
	require.Error(t, err)
	assert.True(t, amboy.IsDuplicateJobScopeError(err))

	if f.client == nil {
		t.Skip("queues in memory have no manager of their own: set " + uriVariable)
	}
	output, err := f.amboy("secret", "management", "status", "--filter", "pending")
	require.NoError(t, err)
	assert.Regexp(t, provisionHostJobName+` +south +1`, output)
	_, err = f.amboy("secret", "management", "complete-job", "--id", later.ID())
	require.NoError(t, err)
	require.NoError(t, q.Put(f.ctx, other))
	require.True(t, amboy.WaitJob(f.ctx, other, q))
}

func TestJobIsAbortedOnTheCommandLine(t *testing.T) {
	f := startFleet(t)
	q := f.queue(t, "large-west")
	j := NewWatchHostJob("host-3")
	require.NoError(t, q.Put(f.ctx, j))
	receive(t, f.ctx, f.Hosts.watched)
	output, err := f.amboy("secret", "abortable_pool_management", "list")
	require.NoError(t, err)
	assert.Contains(t, output, j.ID())
	_, err = f.amboy("secret", "abortable_pool_management", "abort", "--id", j.ID())
	require.NoError(t, err)
	output, err = f.amboy("secret", "abortable_pool_management", "list")
	require.NoError(t, err)
	assert.NotContains(t, output, j.ID())
}

func TestCommandLineNeedsTheToken(t *testing.T) {
	f := startFleet(t)
	_, err := f.amboy("guessed", "management", "complete-jobs", "--filter", "all")
	require.ErrorContains(t, err, "401")
}

func TestLocalJobs(t *testing.T) {
	f := startFleet(t)
	shell := job.NewShellJob("true", "")
	stats := NewStatsJob("now")
	require.NoError(t, f.Local.PutMany(f.ctx, []amboy.Job{shell, stats}))
	require.True(t, amboy.Wait(f.ctx, f.Local))
	for result := range f.Local.Results(f.ctx) {
		assert.NoError(t, result.Error())
	}
	output, err := f.amboy("secret", "management", "jobs", "--prefix", localManagementPrefix, "--type", statsJobName)
	require.NoError(t, err)
	assert.Contains(t, output, stats.ID())
}

// Services wrap the errors of Put with package github.com/pkg/errors before they ask what they are.
func TestKindsOfErrorsAreSeenThroughWrappers(t *testing.T) {
	duplicate, scope := amboy.NewDuplicateJobError("job is taken"), amboy.NewDuplicateJobScopeError("scope is held")
	for name, wrap := range map[string]func(error) error{
		"Wrap":        func(err error) error { return errors.Wrap(err, "putting") },
		"WithStack":   errors.WithStack,
		"WithMessage": func(err error) error { return errors.WithMessage(err, "putting") },
		"Cause":       func(err error) error { return errors.Cause(errors.Wrap(err, "putting")) },
	} {
		for _, err := range []error{duplicate, amboy.CollateWriteErrors([]error{wrap(duplicate), nil, duplicate})} {
			assert.True(t, amboy.IsDuplicateJobError(wrap(err)), name)
			assert.False(t, amboy.IsDuplicateJobScopeError(wrap(err)), name)
		}
		assert.True(t, amboy.IsDuplicateJobScopeError(wrap(amboy.CollateWriteErrors([]error{scope, duplicate}))), name)
		assert.True(t, amboy.IsJobNotFoundError(wrap(amboy.NewJobNotFoundError("no such job"))), name)
	}
}
