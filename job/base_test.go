package job_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
)

// task is a job that runs a test's function.
type task struct {
	job.Base
	run func(context.Context, *task)
}

func (t *task) Run(ctx context.Context) { t.run(ctx, t) }

var _ amboy.Job = (*task)(nil)

func ptr[T any](v T) *T { return &v }

func at(hour int) time.Time { return time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC) }

func TestZeroBase(t *testing.T) {
	var b job.Base
	assert.Empty(t, b.ID())
	assert.Equal(t, amboy.JobType{}, b.Type())
	assert.Zero(t, b.Priority())
	require.NoError(t, b.Error())
	assert.False(t, b.HasErrors())
	assert.Equal(t, amboy.JobStatusInfo{}, b.Status())
	assert.Equal(t, amboy.JobTimeInfo{}, b.TimeInfo())
	assert.Equal(t, amboy.JobRetryInfo{}, b.RetryInfo())
	assert.True(t, b.IsLastAttempt())
	assert.Nil(t, b.Scopes())
	assert.Nil(t, b.EnqueueScopes())
	assert.False(t, b.EnqueueAllScopes())
	assert.Equal(t, dependency.Ready, b.Dependency().State())
	assert.Empty(t, b.Dependency().Edges())

	b.Unlock("nobody", time.Minute)
	b.MarkComplete()
	assert.True(t, b.Status().Completed)
}

func TestBaseSize(t *testing.T) {
	t.Logf("a Base takes %d bytes", unsafe.Sizeof(job.Base{}))
}

func TestBaseIdentity(t *testing.T) {
	var b job.Base
	b.SetID("a")
	b.SetType(amboy.JobType{Name: "type", Version: 2})
	b.SetPriority(-3)
	assert.Equal(t, "a", b.ID())
	assert.Equal(t, amboy.JobType{Name: "type", Version: 2}, b.Type())
	assert.Equal(t, -3, b.Priority())
}

func TestBaseErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b job.Base
		b.AddError(nil)
		b.AddRetryableError(nil)
		require.NoError(t, b.Error())
		assert.False(t, b.HasErrors())
		assert.Equal(t, amboy.JobStatusInfo{}, b.Status())

		b.UpdateRetryInfo(amboy.JobRetryOptions{CurrentAttempt: ptr(2)})
		b.AddError(errors.New("one"))
		b.AddError(&amboy.PanicError{Value: "two", Stack: []byte("main.main()")})
		assert.True(t, b.HasErrors())
		require.EqualError(t, b.Error(), "one\npanic: two")
		assert.Equal(t, amboy.JobStatusInfo{
			ErrorCount: 2,
			Errors:     []string{"one", "panic: two"},
			Attempts: []amboy.AttemptError{
				{Attempt: 2, At: time.Now(), Error: "one"},
				{Attempt: 2, At: time.Now(), Error: "panic: two", Stack: "main.main()"},
			},
		}, b.Status())
	})
}

func TestAddRetryableError(t *testing.T) {
	for _, retryable := range []bool{true, false} {
		t.Run(fmt.Sprintf("retryable is %t", retryable), func(t *testing.T) {
			var b job.Base
			b.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable})
			b.AddError(errors.New("one"))
			assert.False(t, b.RetryInfo().NeedsRetry)
			b.AddRetryableError(nil)
			assert.False(t, b.RetryInfo().NeedsRetry)
			b.AddRetryableError(errors.New("two"))
			assert.True(t, b.RetryInfo().NeedsRetry)
			assert.Equal(t, retryable, b.RetryInfo().ShouldRetry())
			require.EqualError(t, b.Error(), "one\ntwo")
		})
	}
}

func TestSetStatus(t *testing.T) {
	var b job.Base
	b.AddError(errors.New("gone"))
	errs := []string{"one", "two"}
	attempts := []amboy.AttemptError{{Error: "one"}}
	b.SetStatus(amboy.JobStatusInfo{Owner: "owner", Errors: errs, Attempts: attempts})
	errs[0], attempts[0].Error = "changed", "changed"
	require.EqualError(t, b.Error(), "one\ntwo")

	status := b.Status()
	assert.Equal(t, amboy.JobStatusInfo{
		Owner: "owner", ErrorCount: 2, Errors: []string{"one", "two"}, Attempts: []amboy.AttemptError{{Error: "one"}},
	}, status)
	status.Errors[0], status.Attempts[0].Error = "changed", "changed"
	assert.Equal(t, "one", b.Status().Errors[0], "what Status returns is a copy")
	assert.Equal(t, "one", b.Status().Attempts[0].Error, "what Status returns is a copy")
}

func TestTimeInfo(t *testing.T) {
	all := amboy.JobTimeInfo{
		Created: at(1), Start: at(2), End: at(3), WaitUntil: at(4), DispatchBy: at(5), MaxTime: time.Hour,
	}
	for name, test := range map[string]struct {
		update amboy.JobTimeInfo
		change func(*amboy.JobTimeInfo)
	}{
		"nothing":     {amboy.JobTimeInfo{}, func(*amboy.JobTimeInfo) {}},
		"created":     {amboy.JobTimeInfo{Created: at(9)}, func(i *amboy.JobTimeInfo) { i.Created = at(9) }},
		"start":       {amboy.JobTimeInfo{Start: at(9)}, func(i *amboy.JobTimeInfo) { i.Start = at(9) }},
		"end":         {amboy.JobTimeInfo{End: at(9)}, func(i *amboy.JobTimeInfo) { i.End = at(9) }},
		"wait until":  {amboy.JobTimeInfo{WaitUntil: at(9)}, func(i *amboy.JobTimeInfo) { i.WaitUntil = at(9) }},
		"dispatch by": {amboy.JobTimeInfo{DispatchBy: at(9)}, func(i *amboy.JobTimeInfo) { i.DispatchBy = at(9) }},
		"max time":    {amboy.JobTimeInfo{MaxTime: time.Second}, func(i *amboy.JobTimeInfo) { i.MaxTime = time.Second }},
	} {
		t.Run(name, func(t *testing.T) {
			var b job.Base
			b.SetTimeInfo(all)
			b.UpdateTimeInfo(test.update)
			want := all
			test.change(&want)
			assert.Equal(t, want, b.TimeInfo())

			b.SetTimeInfo(test.update)
			assert.Equal(t, test.update, b.TimeInfo(), "SetTimeInfo replaces all")
		})
	}
}

func TestUpdateRetryInfo(t *testing.T) {
	all := amboy.JobRetryInfo{
		Retryable: true, NeedsRetry: true, BaseJobID: "a", CurrentAttempt: 3, MaxAttempts: 5,
		DispatchBy: time.Hour, WaitUntil: time.Minute, Start: at(1), End: at(2),
	}
	for name, test := range map[string]struct {
		update amboy.JobRetryOptions
		change func(*amboy.JobRetryInfo)
	}{
		"nothing":         {amboy.JobRetryOptions{}, func(*amboy.JobRetryInfo) {}},
		"retryable":       {amboy.JobRetryOptions{Retryable: ptr(false)}, func(i *amboy.JobRetryInfo) { i.Retryable, i.BaseJobID = false, "" }},
		"needs retry":     {amboy.JobRetryOptions{NeedsRetry: ptr(false)}, func(i *amboy.JobRetryInfo) { i.NeedsRetry = false }},
		"current attempt": {amboy.JobRetryOptions{CurrentAttempt: ptr(0)}, func(i *amboy.JobRetryInfo) { i.CurrentAttempt = 0 }},
		"max attempts":    {amboy.JobRetryOptions{MaxAttempts: ptr(0)}, func(i *amboy.JobRetryInfo) { i.MaxAttempts = 0 }},
		"dispatch by":     {amboy.JobRetryOptions{DispatchBy: ptr(time.Duration(0))}, func(i *amboy.JobRetryInfo) { i.DispatchBy = 0 }},
		"wait until":      {amboy.JobRetryOptions{WaitUntil: ptr(time.Duration(0))}, func(i *amboy.JobRetryInfo) { i.WaitUntil = 0 }},
		"start":           {amboy.JobRetryOptions{Start: ptr(time.Time{})}, func(i *amboy.JobRetryInfo) { i.Start = time.Time{} }},
		"end":             {amboy.JobRetryOptions{End: ptr(time.Time{})}, func(i *amboy.JobRetryInfo) { i.End = time.Time{} }},
	} {
		t.Run(name, func(t *testing.T) {
			var b job.Base
			b.SetID("a")
			b.UpdateRetryInfo(all.Options())
			require.Equal(t, all, b.RetryInfo())
			b.UpdateRetryInfo(test.update)
			want := all
			test.change(&want)
			assert.Equal(t, want, b.RetryInfo())
		})
	}
}

func TestIsLastAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		retry     amboy.JobRetryInfo
		remaining int
		last      bool
	}{
		"not retryable":          {amboy.JobRetryInfo{NeedsRetry: true}, 9, true},
		"asks for no retry":      {amboy.JobRetryInfo{Retryable: true}, 9, true},
		"first of the default":   {amboy.JobRetryInfo{Retryable: true, NeedsRetry: true}, 9, false},
		"last of the default":    {amboy.JobRetryInfo{Retryable: true, NeedsRetry: true, CurrentAttempt: 9}, 0, true},
		"one before the last":    {amboy.JobRetryInfo{Retryable: true, NeedsRetry: true, CurrentAttempt: 1, MaxAttempts: 3}, 1, false},
		"last":                   {amboy.JobRetryInfo{Retryable: true, NeedsRetry: true, CurrentAttempt: 2, MaxAttempts: 3}, 0, true},
		"more than were allowed": {amboy.JobRetryInfo{Retryable: true, NeedsRetry: true, CurrentAttempt: 7, MaxAttempts: 3}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			var b job.Base
			b.UpdateRetryInfo(test.retry.Options())
			assert.Equal(t, test.last, b.IsLastAttempt())
			info := b.RetryInfo()
			assert.Equal(t, test.remaining, info.GetRemainingAttempts())
		})
	}
}

func TestBaseScopes(t *testing.T) {
	for name, test := range map[string]struct {
		scopes, enqueue         []string
		all                     bool
		wantScopes, wantEnqueue []string
	}{
		"none":                  {},
		"empty":                 {scopes: []string{}, enqueue: []string{}},
		"at dispatch":           {scopes: []string{"a", "b"}, wantScopes: []string{"a", "b"}},
		"all at enqueue":        {scopes: []string{"a", "b"}, all: true, wantScopes: []string{"a", "b"}, wantEnqueue: []string{"a", "b"}},
		"all of none":           {all: true},
		"some at enqueue":       {scopes: []string{"a", "b", "c"}, enqueue: []string{"c", "a"}, wantScopes: []string{"a", "b", "c"}, wantEnqueue: []string{"c", "a"}},
		"others at enqueue":     {scopes: []string{"a"}, enqueue: []string{"b"}, wantScopes: []string{"a"}},
		"enqueue without scope": {enqueue: []string{"a"}},
		"all wins over some":    {scopes: []string{"a", "b"}, enqueue: []string{"a"}, all: true, wantScopes: []string{"a", "b"}, wantEnqueue: []string{"a", "b"}},
		"repeated":              {scopes: []string{"a", "b", "a"}, enqueue: []string{"b", "b"}, wantScopes: []string{"a", "b"}, wantEnqueue: []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var b job.Base
			b.SetEnqueueScopes(test.enqueue...)
			b.SetEnqueueAllScopes(test.all)
			b.SetScopes(test.scopes)
			assert.Equal(t, test.wantScopes, b.Scopes())
			assert.Equal(t, test.wantEnqueue, b.EnqueueScopes())
			assert.Equal(t, test.all, b.EnqueueAllScopes())
		})
	}
}

func TestScopesAreCopies(t *testing.T) {
	var b job.Base
	given := []string{"a", "b"}
	b.SetScopes(given)
	b.SetEnqueueAllScopes(true)
	given[0] = "changed"
	b.Scopes()[0] = "changed"
	b.EnqueueScopes()[0] = "changed"
	assert.Equal(t, []string{"a", "b"}, b.Scopes())
}

func TestBaseDependency(t *testing.T) {
	var b job.Base
	require.NoError(t, b.Dependency().AddEdge("first"))
	assert.Equal(t, []string{"first"}, b.Dependency().Edges(), "the default manager keeps its edges")

	file := dependency.NewCreatesFile("/nonexistent")
	b.SetDependency(file)
	assert.Same(t, file, b.Dependency())
	b.SetDependency(nil)
	assert.Equal(t, "always", b.Dependency().Type().Name)
}

const lockTimeout = 10 * time.Minute

// lockStates are locks held by "other", and whether a lock of that age keeps every other
// owner out.
var lockStates = map[string]struct {
	status amboy.JobStatusInfo
	retry  amboy.JobRetryInfo
	age    time.Duration
	held   bool
}{
	"in progress":                  {amboy.JobStatusInfo{Owner: "other", InProgress: true}, amboy.JobRetryInfo{}, lockTimeout - 1, true},
	"in progress, stale":           {amboy.JobStatusInfo{Owner: "other", InProgress: true}, amboy.JobRetryInfo{}, lockTimeout, false},
	"in progress without an owner": {amboy.JobStatusInfo{InProgress: true}, amboy.JobRetryInfo{}, 0, false},
	"awaiting a retry":             {amboy.JobStatusInfo{Owner: "other", Completed: true}, amboy.JobRetryInfo{Retryable: true, NeedsRetry: true}, lockTimeout - 1, true},
	"awaiting a retry, stale":      {amboy.JobStatusInfo{Owner: "other", Completed: true}, amboy.JobRetryInfo{Retryable: true, NeedsRetry: true}, lockTimeout, false},
	"complete":                     {amboy.JobStatusInfo{Owner: "other", Completed: true}, amboy.JobRetryInfo{Retryable: true}, 0, false},
	"only owned":                   {amboy.JobStatusInfo{Owner: "other"}, amboy.JobRetryInfo{}, 0, false},
	"free":                         {amboy.JobStatusInfo{}, amboy.JobRetryInfo{}, 0, false},
}

func TestLock(t *testing.T) {
	for name, test := range lockStates {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b job.Base
				b.SetID("a")
				before := test.status
				before.ModificationTime, before.ModificationCount = time.Now(), 3
				b.SetStatus(before)
				b.UpdateRetryInfo(test.retry.Options())
				<-time.After(test.age)

				err := b.Lock("me", lockTimeout)
				if test.held {
					require.ErrorContains(t, err, `"other"`)
					assert.Equal(t, before, b.Status(), "a refused lock changes nothing")
					require.NoError(t, b.Lock("other", lockTimeout), "its owner extends it")
					return
				}
				require.NoError(t, err)
				want := before
				want.Owner, want.ModificationTime, want.ModificationCount = "me", time.Now(), 4
				assert.Equal(t, want, b.Status())
			})
		})
	}
}

func TestUnlock(t *testing.T) {
	for name, test := range lockStates {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b job.Base
				before := test.status
				before.ModificationTime, before.ModificationCount = time.Now(), 3
				b.SetStatus(before)
				b.UpdateRetryInfo(test.retry.Options())
				<-time.After(test.age)

				if test.held {
					b.Unlock("me", lockTimeout)
					assert.Equal(t, before, b.Status(), "the live lock of another owner stays")
				}
				b.Unlock("other", lockTimeout)
				status := b.Status()
				assert.Empty(t, status.Owner)
				assert.False(t, status.InProgress)
				assert.Equal(t, test.status.Completed, status.Completed)
				require.NoError(t, b.Lock("me", lockTimeout))
			})
		})
	}
}

func TestBaseConcurrently(t *testing.T) {
	const workers, rounds = 8, 50
	j := &task{}
	j.SetID("shared")
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: ptr(true)})
	var running sync.WaitGroup
	for n := range workers {
		owner := fmt.Sprint("owner-", n)
		running.Go(func() {
			for range rounds {
				useEverything(j, owner)
			}
		})
	}
	running.Wait()
	status := j.Status()
	assert.Equal(t, workers*rounds, status.ErrorCount)
	assert.Len(t, status.Attempts, amboy.MaxAttemptErrors)
	assert.Equal(t, workers*rounds-amboy.MaxAttemptErrors, status.DroppedErrors)
	assert.Equal(t, 2*workers*rounds, status.ModificationCount)
}

// useEverything calls all methods that may be called at any time, from any goroutine. The
// lock is never in progress, so it can always be taken.
func useEverything(j *task, owner string) {
	if err := j.Lock(owner, lockTimeout); err == nil {
		j.Unlock(owner, lockTimeout)
	}
	j.AddRetryableError(errors.New(owner))
	j.UpdateTimeInfo(amboy.JobTimeInfo{Start: time.Now()})
	j.SetTimeInfo(j.TimeInfo())
	j.UpdateRetryInfo(amboy.JobRetryOptions{MaxAttempts: ptr(5), NeedsRetry: ptr(false)})
	j.SetPriority(j.Priority() + 1)
	j.SetScopes([]string{owner})
	j.SetEnqueueScopes(owner)
	j.SetEnqueueAllScopes(!j.EnqueueAllScopes())
	j.SetDependency(nil)
	_ = amboy.NewJobInfo(j)
	_, _, _, _ = j.Scopes(), j.EnqueueScopes(), j.IsLastAttempt(), j.HasErrors()
	_, _ = j.Error(), j.Dependency().State()
}

func TestGetNumber(t *testing.T) {
	const workers, rounds = 4, 100
	seen := make([][]int, workers)
	var running sync.WaitGroup
	for n := range workers {
		running.Go(func() {
			for range rounds {
				seen[n] = append(seen[n], job.GetNumber())
			}
		})
	}
	running.Wait()
	all := map[int]bool{}
	for _, numbers := range seen {
		for _, number := range numbers {
			assert.Positive(t, number)
			assert.False(t, all[number], "%d was given twice", number)
			all[number] = true
		}
	}
	assert.Len(t, all, workers*rounds)
}
