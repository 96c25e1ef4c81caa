package queue_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// overriding is a job whose type overrides methods of job.Base. One of them panics, or ends its
// goroutine: in a copy that was read from a store, which lacks what only the original has, or from its
// first run on.
type overriding struct {
	job.Base `bson:"job_base" json:"job_base"`
	Broken   string `bson:"broken" json:"broken"`
	When     string `bson:"when" json:"when"`
	Exits    bool   `bson:"exits" json:"exits"`

	original bool
	ran      atomic.Bool
}

// The values of overriding.When.
const (
	whenCopied  = "copied"
	whenRun     = "run"
	whenWritten = "written" // once overridingWritten is set
)

var (
	overridingRuns    atomic.Int64
	overridingWritten atomic.Bool
)

func init() {
	registry.AddJobType("overriding", func() amboy.Job {
		return &overriding{Base: job.Base{JobType: amboy.JobType{Name: "overriding"}}}
	})
}

func newOverriding(method, when string, exits bool) *overriding {
	j := &overriding{Base: job.Base{JobType: amboy.JobType{Name: "overriding"}}, Broken: method, When: when, Exits: exits, original: true}
	j.SetID("overriding")
	j.SetScopes([]string{"scope"})
	j.Base.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(3)})
	return j
}

func (j *overriding) call(method string) {
	if j.Broken != method || !j.isBroken() {
		return
	}
	if j.Exits {
		runtime.Goexit()
	}
	panic(method + " is broken")
}

func (j *overriding) isBroken() bool {
	if j.When == whenWritten {
		return overridingWritten.Load()
	}
	return j.ran.Load() || j.When == whenCopied && !j.original
}

func (j *overriding) Run(context.Context) {
	overridingRuns.Add(1)
	j.ran.Store(true)
	if j.Base.RetryInfo().CurrentAttempt == 0 {
		j.Base.AddRetryableError(errors.New("once more"))
	}
}

func (j *overriding) ID() string {
	j.call("ID")
	return j.Base.ID()
}

func (j *overriding) Type() amboy.JobType {
	j.call("Type")
	return j.Base.Type()
}

func (j *overriding) Dependency() dependency.Manager {
	j.call("Dependency")
	return j.Base.Dependency()
}

func (j *overriding) Status() amboy.JobStatusInfo {
	j.call("Status")
	return j.Base.Status()
}

func (j *overriding) SetStatus(status amboy.JobStatusInfo) {
	j.call("SetStatus")
	j.Base.SetStatus(status)
}

func (j *overriding) Error() error {
	j.call("Error")
	return j.Base.Error()
}

func (j *overriding) AddError(err error) {
	j.call("AddError")
	j.Base.AddError(err)
}

func (j *overriding) AddRetryableError(err error) {
	j.call("AddRetryableError")
	j.Base.AddRetryableError(err)
}

func (j *overriding) TimeInfo() amboy.JobTimeInfo {
	j.call("TimeInfo")
	return j.Base.TimeInfo()
}

func (j *overriding) SetTimeInfo(times amboy.JobTimeInfo) {
	j.call("SetTimeInfo")
	j.Base.SetTimeInfo(times)
}

func (j *overriding) UpdateTimeInfo(times amboy.JobTimeInfo) {
	j.call("UpdateTimeInfo")
	j.Base.UpdateTimeInfo(times)
}

func (j *overriding) RetryInfo() amboy.JobRetryInfo {
	j.call("RetryInfo")
	return j.Base.RetryInfo()
}

func (j *overriding) UpdateRetryInfo(opts amboy.JobRetryOptions) {
	j.call("UpdateRetryInfo")
	j.Base.UpdateRetryInfo(opts)
}

func (j *overriding) Lock(owner string, timeout time.Duration) error {
	j.call("Lock")
	return j.Base.Lock(owner, timeout)
}

func (j *overriding) EnqueueScopes() []string {
	j.call("EnqueueScopes")
	return j.Base.EnqueueScopes()
}

func (j *overriding) EnqueueAllScopes() bool {
	j.call("EnqueueAllScopes")
	return j.Base.EnqueueAllScopes()
}

func (j *overriding) Snooze(until time.Time) {
	j.call("Snooze")
	j.Base.Snooze(until)
}

func (j *overriding) SnoozedUntil() time.Time {
	j.call("SnoozedUntil")
	return j.Base.SnoozedUntil()
}

func (j *overriding) Progress() *amboy.JobProgress {
	j.call("Progress")
	return j.Base.Progress()
}

// overridden are the methods of job.Base that queues and runners call.
var overridden = []string{
	"ID", "Type", "Dependency", "Status", "SetStatus", "Error", "AddError", "AddRetryableError", "TimeInfo", "SetTimeInfo",
	"UpdateTimeInfo", "RetryInfo", "UpdateRetryInfo", "EnqueueScopes", "EnqueueAllScopes", "Snooze", "SnoozedUntil", "Progress",
}

// Such a job was never ended: its lease was renewed, or it stayed in its local queue as running, until
// the process ended.
func TestAJobWhoseOwnMethodsPanicRanForEver(t *testing.T) {
	for _, when := range []string{whenCopied, whenRun} {
		for _, method := range overridden {
			t.Run(method+" "+when, func(t *testing.T) { endsBroken(t, method, when, false) })
		}
	}
}

func TestAJobWhoseOwnMethodsEndTheirGoroutineRanForEver(t *testing.T) {
	for _, when := range []string{whenCopied, whenRun} {
		for _, method := range []string{"ID", "Status", "Error", "EnqueueScopes"} {
			t.Run(method+" "+when, func(t *testing.T) { endsBroken(t, method, when, true) })
		}
	}
}

// endsBroken checks that a job with a broken method ends or is parked, and keeps neither its worker
// nor, if it ends, its scope.
func endsBroken(t *testing.T, method, when string, exits bool) {
	t.Helper()
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		before := overridingRuns.Load()
		put(t, q, newOverriding(method, when, exits))
		pass(time.Minute)
		assert.LessOrEqual(t, overridingRuns.Load()-before, int64(3))

		after := noop(t, "after")
		if _, stored := q.(amboy.RetryableQueue); stored {
			info := infoOf(t, q, "overriding")
			assert.True(t, info.State.IsFinal() || info.State == amboy.StateParked, info.State)
			assert.Zero(t, info.Status.Interruptions.Total())
			if info.State.IsFinal() {
				after.SetScopes([]string{"scope"})
			}
		} else {
			assert.True(t, q.Stats(t.Context()).IsIdle(), q.Stats(t.Context()).String())
			after.SetScopes([]string{"scope"})
		}
		put(t, q, after)
		require.True(t, amboy.WaitJob(within(t), after, q))
		assert.Equal(t, amboy.StateSucceeded, amboy.NewJobInfo(jobOf(t, q, "after")).State)
	})
}
