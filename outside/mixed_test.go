package outside_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/retry"
)

var inGo = job.Define("outside-in-go", 1, func(context.Context, string) error { return nil })

// Go workers and outside workers take their own jobs of one queue.
func TestGoWorkersLeaveJobsForOutsideWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.New(memory.Options{KeepFinished: 100})
		require.NoError(t, err)
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: queueName, NumWorkers: 2})
		require.NoError(t, err)
		require.NoError(t, q.Start(t.Context()))
		d, err := outside.New(q, outside.Options{})
		require.NoError(t, err)

		_, err = declared.Put(t.Context(), q, map[string]int{"n": 1}, job.ID("declared"))
		require.NoError(t, err)
		unknown, err := job.NewOutside(jobType, job.Payload{JSON: json.RawMessage(`7`)}, job.ID("unknown"))
		require.NoError(t, err)
		require.NoError(t, q.Put(t.Context(), unknown))
		_, err = inGo.Put(t.Context(), q, "x", job.ID("go"))
		require.NoError(t, err)
		synctest.Wait()

		stats := q.Stats(t.Context())
		assert.Equal(t, []int{2, 1}, []int{stats.Pending, stats.Completed})
		req := outside.LeaseRequest{Queues: []string{queueName}, Types: []string{typeName, declared.Type().Name, inGo.Type().Name}, Limit: 10}
		_, err = inGo.Put(t.Context(), q, "x", job.ID("later"), job.In(time.Minute))
		require.NoError(t, err)
		jobs, err := d.Lease(t.Context(), req)
		require.NoError(t, err)
		assert.Equal(t, []string{"declared", "unknown"}, ids(jobs))

		// No operator is told of unknown types.
		inspector, err := management.NewInspector(q)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		queues, err := inspector.Queues(t.Context())
		require.NoError(t, err)
		require.Len(t, queues, 1)
		assert.Empty(t, queues[0].Unknown)
		shown, err := inspector.Job(t.Context(), queueName, "unknown")
		require.NoError(t, err)
		assert.JSONEq(t, `7`, string(shown.Args))

		require.NoError(t, d.Close(t.Context()))
		q.Close(t.Context())
	})
}

var patient = job.Declare[struct {
	N int `json:"n"`
}]("outside-patient", 1, job.Defaults[struct {
	N int `json:"n"`
}]{MaxAttempts: 3, RetryPolicy: retry.Fixed{Wait: time.Hour}, Retention: amboy.Retention{Failed: time.Minute}})

// What the definition does not know about the payload of a job survives its retries, and
// processes without the definition know its defaults.
func TestPayloadAndDefaultsSurviveRetries(t *testing.T) {
	onEach(t, func(f *fixture) {
		inspector, err := management.NewGroupInspector(f.group)
		require.NoError(f, err)
		f.queue()
		_, err = patient.Put(f.ctx, f.queue(), struct {
			N int `json:"n"`
		}{5}, job.ID("a"))
		require.NoError(f, err)
		assert.JSONEq(f, `{"outside":true,"args":{"n":5},"override":{"retry_policy":{"fixed":{"wait":3600000000000}},"retention":{"Succeeded":0,"Failed":60000000000,"Canceled":0,"Expired":0}}}`, string(f.record("a").Raw()))
		req := request()
		req.Types, req.Wait = []string{"outside-patient"}, 30*time.Second
		for attempt := range 2 {
			jobs, err := f.dispatcher.Lease(f.ctx, req)
			require.NoError(f, err)
			require.Len(f, jobs, 1)
			if attempt == 0 {
				require.NoError(f, f.ack(outside.Ack{Token: jobs[0].Token, Checkpoint: &outside.Checkpoint{Payload: &job.Payload{JSON: json.RawMessage(`{"n":6,"row":7}`)}}}))
				require.NoError(f, f.fail(jobs[0], outside.Fail{Error: "no"}))
				require.Eventually(f, func() bool { return f.state("a") == amboy.StateScheduled }, patience, time.Millisecond)
				_, err = inspector.ActOn(f.ctx, queueName, "a", management.Action{Kind: management.Retry})
				require.NoError(f, err)
				continue
			}
			assert.JSONEq(f, `{"n":6,"row":7}`, string(jobs[0].Payload.JSON))
			require.NoError(f, f.fail(jobs[0], outside.Fail{Error: "no", Permanent: true}))
			r := f.record("a")
			assert.WithinDuration(f, r.TimeInfo.End.Add(time.Minute), r.ForgetAt, time.Second)
		}
	})
}

func TestQueuesByReferenceRefuseJobsForOutsideWorkers(t *testing.T) {
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, PutBeforeStart: true})
	require.NoError(t, err)
	defer q.Close(t.Context())
	_, err = outside.New(q, outside.Options{})
	require.ErrorIs(t, err, outside.ErrUnsupported)
	_, err = declared.Put(t.Context(), q, nil)
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "type", invalid.Field)
}

func TestRequestsAreChecked(t *testing.T) {
	inMemory(t, outside.Options{MaxPayload: 10}, func(f *fixture) {
		hour := time.Hour
		refused := func(field string, err error) {
			f.Helper()
			var invalid *outside.InvalidError
			var invalidJob *amboy.InvalidJobError
			if field == "payload" {
				require.ErrorAs(f, err, &invalidJob, field)
				assert.Equal(f, field, invalidJob.Field)
				return
			}
			require.ErrorAs(f, err, &invalid, field)
			assert.Equal(f, field, invalid.Field)
		}
		for field, change := range map[string]func(*outside.LeaseRequest){
			"queues": func(r *outside.LeaseRequest) { r.Queues = nil },
			"types":  func(r *outside.LeaseRequest) { r.Types = []string{"a", "a"} },
			"limit":  func(r *outside.LeaseRequest) { r.Limit = outside.MaxBatch + 1 },
			"wait":   func(r *outside.LeaseRequest) { r.Wait = outside.MaxWait + 1 },
			"lease":  func(r *outside.LeaseRequest) { r.Lease = time.Millisecond },
			"worker": func(r *outside.LeaseRequest) { r.Worker = "\xff" },
		} {
			req := request()
			change(&req)
			_, err := f.dispatcher.Lease(f.ctx, req)
			refused(field, err)
		}
		f.put("a", `1`)
		j := f.leaseOne()
		long := make([]byte, 2<<20)
		for field, ack := range map[string]outside.Ack{
			"acknowledgement": {Complete: &outside.Complete{}, Release: &outside.Release{}},
			"result":          {Complete: &outside.Complete{Result: json.RawMessage("{")}},
			"error":           {Fail: &outside.Fail{}},
			"stack":           {Fail: &outside.Fail{Error: "x", Stack: string(long)}},
			"retry_in":        {Fail: &outside.Fail{Error: "x", Permanent: true, RetryIn: &hour}},
			"delay":           {Release: &outside.Release{Delay: -1}},
			"reason":          {Release: &outside.Release{Reason: string(long)}},
			"payload":         {Checkpoint: &outside.Checkpoint{Payload: &job.Payload{JSON: json.RawMessage(`"0123456789"`)}}},
		} {
			ack.Token = j.Token
			refused(field, f.ack(ack))
		}
		refused("acknowledgements", f.dispatcher.Acknowledge(f.ctx, make([]outside.Ack, outside.MaxBatch+1)...)[0])
		refused("heartbeats", f.dispatcher.Heartbeat(f.ctx, make([]outside.Beat, outside.MaxBatch+1)...)[0].Err)
		refused("fraction", f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: j.Token, Progress: &outside.Progress{Fraction: 2}})[0].Err)
		require.NoError(f, f.complete(j, ``))
	})
}

func FuzzToken(f *testing.F) {
	f.Add("AQRtYWlsB290aGVyMTE")
	f.Fuzz(func(t *testing.T, text string) {
		if name, jobType, err := outside.Token(text).Job(); err != nil {
			require.ErrorIs(t, err, outside.ErrBadToken)
			assert.Empty(t, name+jobType)
		}
	})
}
