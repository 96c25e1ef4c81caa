package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// fragile is a job that panics in one of its methods. Its first attempt fails, and asks
// for a retry.
type fragile struct {
	job.Base `bson:"job_base" json:"job_base"`
	Panics   string `bson:"panics" json:"panics"`
	Ran      int    `bson:"ran" json:"ran"`
}

// fragileRuns counts the runs of fragile jobs.
var fragileRuns atomic.Int64

func (j *fragile) panicIn(method string) {
	if j.Panics == method {
		panic(method + " is broken")
	}
}

func (j *fragile) Run(context.Context) {
	fragileRuns.Add(1)
	j.Ran++
	j.panicIn("Run")
	if j.RetryInfo().CurrentAttempt == 0 {
		j.AddRetryableError(errors.New("once more"))
	}
}

func (j *fragile) Retention() amboy.Retention {
	j.panicIn("Retention")
	return amboy.Retention{}
}

func (j *fragile) RetryPolicy() amboy.RetryPolicy {
	j.panicIn("RetryPolicy")
	return nil
}

func (j *fragile) Tags() []string {
	j.panicIn("Tags")
	return nil
}

func (j *fragile) UniqueKey() (string, amboy.UniqueUntil) {
	j.panicIn("UniqueKey")
	return "", ""
}

func (j *fragile) Priority() int {
	j.panicIn("Priority")
	return 0
}

func (j *fragile) Scopes() []string {
	j.panicIn("Scopes")
	return j.Base.Scopes()
}

func (j *fragile) Result() any {
	if j.Ran > 0 {
		j.panicIn("Result")
	}
	return nil
}

func (j *fragile) RestoreResult(func(any) error) {}

func (j *fragile) MarshalJSON() ([]byte, error) {
	if j.Ran > 0 {
		j.panicIn("MarshalJSON")
	}
	return []byte(`{"panics":"` + j.Panics + `","job_base":{"name":"fragile","job_type":{"name":"fragile","version":1},"required_scopes":["scope"]}}`), nil
}

// fragileDependency is a dependency manager that panics in one of its methods.
type fragileDependency struct {
	dependency.JobEdges `bson:"edges" json:"edges"`
	Panics              string `bson:"panics" json:"panics"`
}

func (*fragileDependency) Type() dependency.TypeInfo {
	return dependency.TypeInfo{Name: "fragile", Version: 1}
}

func (d *fragileDependency) State() dependency.State {
	if d.Panics == "State" {
		panic("State is broken")
	}
	return dependency.Unresolved
}

func (d *fragileDependency) Explain() string {
	if d.Panics == "Explain" {
		panic("Explain is broken")
	}
	return "it never is"
}

func (d *fragileDependency) OnFailure() dependency.FailurePolicy {
	if d.Panics == "OnFailure" {
		panic("OnFailure is broken")
	}
	return dependency.RunOnFailure
}

func init() {
	registry.AddJobType("fragile", func() amboy.Job { return newFragile("") })
	registry.AddDependencyType("fragile", func() dependency.Manager { return &fragileDependency{} })
}

func newFragile(panics string) *fragile {
	j := &fragile{Panics: panics}
	j.SetID("fragile")
	j.JobType = amboy.JobType{Name: "fragile", Version: 1}
	j.SetScopes([]string{"scope"})
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(3)})
	return j
}

// userCode lists the methods of jobs and dependency managers that queues call, except for
// those that job.Base implements for every amboy.Job. Each of them panics in one job. The
// job must be refused or end, and keep neither its scope nor its worker.
//
// Other calls of user code have tests of their own:
//
//	a retry handler's policy    TestRetryHandlerEndsJobsThatPanic, jobstate.NextTimes
//	a driver                    TestLeaseEndsIfTheDriverPanics, TestRetryEndedAsFailed…
//	a subscriber of a driver    TestAPanicOfASubscriberEndedTheProcess
//	a change of SQLite          sqlite.TestAPanicInsideAChangeEndedTheProcess
//	a queue in a group          TestAPanicOfAQueuesStatsEndedThePruning
//	constructors and hooks      TestLocalGroupGetReportsQueuesThatCannotBeMade, group_cache_test.go
//	middleware                  package suite, middleware_test.go
//	factories, decoding         package registry, interchange_test.go
//	schedules and their jobs    package schedule, scheduler_test.go
var userCode = map[string]struct {
	dependency bool
	refused    bool // by Put
	succeeds   bool
	storedOnly bool // called only by queues that store jobs
}{
	"Run":         {},
	"Retention":   {succeeds: true},
	"RetryPolicy": {},
	"Tags":        {refused: true},
	"UniqueKey":   {refused: true},
	"Priority":    {refused: true},
	"Scopes":      {refused: true},
	"Result":      {storedOnly: true},
	"MarshalJSON": {storedOnly: true},
	"State":       {dependency: true},
	"Explain":     {dependency: true},
	"OnFailure":   {dependency: true},
}

func TestAPanicInUserCodeLeftAJobRunningForEver(t *testing.T) {
	for name, call := range userCode {
		t.Run(name, func(t *testing.T) {
			onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
				before := fragileRuns.Load()
				j := newFragile(name)
				if call.dependency {
					d := &fragileDependency{JobEdges: dependency.NewJobEdges(), Panics: name}
					require.NoError(t, d.AddEdge("failed"))
					j.SetDependency(d)
					put(t, q, newJob(t, "failed", func(_ context.Context, j *funcJob) { j.AddError(errors.New("no")) }))
				}
				err := q.Put(t.Context(), j)
				if call.refused {
					var panicked *amboy.PanicError
					require.ErrorAs(t, err, &panicked)
				} else {
					require.NoError(t, err)
				}
				pass(time.Hour)

				after := noop(t, "after")
				after.SetScopes([]string{"scope"})
				put(t, q, after)
				drain(t, q)
				assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "after").State)
				assert.LessOrEqual(t, fragileRuns.Load()-before, int64(3))
				if call.refused {
					return
				}
				state := infoOf(t, q, "fragile").State
				assert.True(t, state.IsFinal(), state)
				if _, stored := q.(amboy.RetryableQueue); !call.succeeds && (stored || !call.storedOnly) {
					assert.Equal(t, amboy.StateFailed, state)
				}
			})
		})
	}
}

func TestAPanicOfASubscriberEndedTheProcess(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) driver.Driver{
		"memory": func(t *testing.T) driver.Driver {
			d, err := memory.New(memory.Options{KeepFinished: 10})
			require.NoError(t, err)
			return d
		},
		"sqlite": func(t *testing.T) driver.Driver {
			d, err := sqlite.Open(t.Context(), sqlite.Options{Path: t.TempDir() + "/jobs.db"})
			require.NoError(t, err)
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 1})
			require.NoError(t, err)
			defer q.Close(context.Background())
			defer d.Subscribe(func(driver.Change) { panic("the subscriber is broken") })()
			require.NoError(t, q.Start(t.Context()))
			put(t, q, noop(t, "one"))
			drain(t, q)
			assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "one").State)
		})
	}
}
