package outside_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// Operators and clients create jobs for outside workers with all options.
func TestCreatedJobHasAllOptions(t *testing.T) {
	onEach(t, func(f *fixture) {
		inspector, err := management.NewGroupInspector(f.group)
		require.NoError(f, err)
		f.put("first", `0`)
		second := management.Duration(time.Second)
		due := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
		job := management.NewJob{
			Queue: queueName, ID: "a", Type: typeName, Args: json.RawMessage(`{"n":1}`), Priority: 7, Due: due,
			JobOptions: management.JobOptions{
				Outside: true, Version: 4, MaxAttempts: 5, MaxInterruptions: 6,
				Backoff: &management.Backoff{Wait: 2 * second, Factor: 3, Max: 100 * second}, TimeToRun: 60 * second, TimeToLive: 3600 * second,
				UniqueKey: "k", Tags: []string{"t"}, Metadata: map[string]string{"m": "1"}, Scopes: []string{"s"}, EnqueueScopes: true,
				After: []string{"first"}, Keep: &management.Keep{Succeeded: 5 * second},
			},
			IdempotencyKey: "once",
		}
		created, err := inspector.CreateJob(f.ctx, job)
		require.NoError(f, err)
		assert.False(f, created.Repeated)
		again, err := inspector.CreateJob(f.ctx, job)
		require.NoError(f, err)
		assert.True(f, again.Repeated)
		changed := job
		changed.MaxAttempts = 9
		_, err = inspector.CreateJob(f.ctx, changed)
		var invalid *management.InvalidArgumentError
		require.ErrorAs(f, err, &invalid)
		assert.Equal(f, "idempotency_key", invalid.Field)
		taken := management.NewJob{Queue: queueName, Type: typeName, JobOptions: management.JobOptions{Outside: true, UniqueKey: "k"}}
		_, err = inspector.CreateJob(f.ctx, taken)
		assert.True(f, amboy.IsDuplicateJobError(err), "%v", err)

		require.NoError(f, f.complete(f.leaseOne(), ``))
		j := f.leaseOne()
		assert.Equal(f, []any{"a", 4, 5, 7}, []any{j.ID, j.Version, j.MaxAttempts, j.Priority})
		assert.JSONEq(f, `{"n":1}`, string(j.Payload.JSON))
		assert.Equal(f, map[string]string{"m": "1"}, j.Metadata)
		r := f.record("a")
		assert.Equal(f, []any{6, []string{"t"}, []string{"s"}, true}, []any{r.RetryInfo.MaxInterruptions, r.Tags, r.EnqueueScopes, r.EnqueueAllScopes})
		assert.WithinDuration(f, time.Now().Add(time.Hour), r.TimeInfo.DispatchBy, time.Minute)
		assert.Equal(f, time.Minute, r.TimeInfo.MaxTime)
		stored, ok := f.queue().Get(f.ctx, "a")
		require.True(f, ok)
		assert.Equal(f, 18*time.Second, stored.(amboy.RetryPolicyJob).RetryPolicy().Delay(2))
		require.NoError(f, f.complete(j, `"ok"`))
		r = f.record("a")
		assert.WithinDuration(f, r.TimeInfo.End.Add(5*time.Second), r.ForgetAt, time.Second)
		shown, err := inspector.Job(f.ctx, queueName, "a")
		require.NoError(f, err)
		assert.JSONEq(f, `"ok"`, string(shown.Result))
	})
}

func TestCreatedJobOfADefinitionHasAllOptions(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		inspector, err := management.NewGroupInspector(f.group)
		require.NoError(f, err)
		f.put("x", `0`)
		second := management.Duration(time.Second)
		_, err = inspector.CreateJob(f.ctx, management.NewJob{
			Queue: queueName, ID: "a", Type: declared.Type().Name, Args: json.RawMessage(`{"n":1}`),
			JobOptions: management.JobOptions{MaxAttempts: 7, Backoff: &management.Backoff{Wait: second}, Tags: []string{"t"}},
		})
		require.NoError(f, err)
		req := request()
		req.Types = []string{declared.Type().Name}
		jobs, err := f.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		require.Len(f, jobs, 1)
		assert.Equal(f, []any{3, 7, []string{"t"}}, []any{jobs[0].Version, jobs[0].MaxAttempts, jobs[0].Tags})
		assert.Equal(f, time.Second, f.policyOf("a"))
		require.NoError(f, f.complete(jobs[0], `3`))
	})
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		inspector, err := management.NewGroupInspector(f.group)
		require.NoError(f, err)
		outside := management.JobOptions{Outside: true}
		with := func(change func(*management.NewJob)) management.NewJob {
			job := management.NewJob{Queue: queueName, Type: typeName, JobOptions: outside}
			change(&job)
			return job
		}
		for name, test := range map[string]struct {
			field string
			job   management.NewJob
		}{
			"not outside":         {"type", with(func(n *management.NewJob) { n.Outside = false })},
			"runs here":           {"outside", with(func(n *management.NewJob) { n.Type = inGo.Type().Name })},
			"both":                {"bytes", with(func(n *management.NewJob) { n.Args, n.Bytes = json.RawMessage(`1`), []byte("a") })},
			"bytes of a type":     {"bytes", with(func(n *management.NewJob) { n.Type, n.Bytes = declared.Type().Name, []byte("a") })},
			"large":               {"bytes", with(func(n *management.NewJob) { n.Bytes = make([]byte, 2<<20) })},
			"time to run":         {"time_to_run", with(func(n *management.NewJob) { n.TimeToRun = -1 })},
			"time to live":        {"time_to_live", with(func(n *management.NewJob) { n.TimeToLive, n.Deadline = 1, time.Now() })},
			"attempts":            {"max_attempts", with(func(n *management.NewJob) { n.MaxAttempts = -1 })},
			"tags":                {"tags", with(func(n *management.NewJob) { n.Tags = []string{""} })},
			"metadata":            {"metadata", with(func(n *management.NewJob) { n.Metadata = map[string]string{"a": ""} })},
			"enqueue scopes":      {"enqueue_scopes", with(func(n *management.NewJob) { n.EnqueueScopes = true })},
			"backoff":             {"backoff.factor", with(func(n *management.NewJob) { n.Backoff = &management.Backoff{Wait: 1, Factor: 0.5} })},
			"unique until":        {"unique until", with(func(n *management.NewJob) { n.UniqueUntil = amboy.UniqueUntilEnded })},
			"keep":                {"keep.failed", with(func(n *management.NewJob) { n.Keep = &management.Keep{Failed: -5} })},
			"version":             {"version", with(func(n *management.NewJob) { n.Version = -1 })},
			"version not outside": {"outside", with(func(n *management.NewJob) { n.Type, n.Outside, n.Version = declared.Type().Name, false, 2 })},
		} {
			_, err := inspector.CreateJob(f.ctx, test.job)
			var invalid *management.InvalidArgumentError
			require.ErrorAs(f, err, &invalid, name)
			assert.Equal(f, test.field, invalid.Field, name)
		}
	})
}
