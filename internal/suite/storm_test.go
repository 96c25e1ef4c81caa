package suite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// exclusion checks that no two running jobs have a name in common.
type exclusion struct {
	*testing.T
	mu   sync.Mutex
	held map[string]bool
}

// hold holds names until the function that it returns is called.
func (e *exclusion) hold(names ...string) (release func()) {
	e.set(names, true)
	return func() { e.set(names, false) }
}

func (e *exclusion) set(names []string, held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range names {
		assert.NotEqual(e, held, e.held[name], "%q is held twice", name)
		e.held[name] = held
	}
}

// misbehave ends a job in a random way.
func (f *fixture) misbehave(ctx context.Context, j *funcJob) {
	job.Log(ctx, "attempt %d", j.RetryInfo().CurrentAttempt)
	switch rand.IntN(8) {
	case 0:
		j.AddRetryableError(errors.New("fails"))
	case 1:
		j.AddRetryableError(job.Snooze(time.Duration(rand.IntN(3)) * time.Millisecond))
	case 2:
		panic("panics")
	case 3:
		j.AddRetryableError(job.Cancel(nil))
	case 4:
		j.AddRetryableError(amboy.NonRetryable(errors.New("fails for good")))
	case 5:
		if withWorkers(f.kind) {
			runtime.Goexit()
		}
	}
}

// TestEachJobEndsOnce runs jobs and middleware that act at random.
func TestEachJobEndsOnce(t *testing.T) {
	const jobs, attempts = 100, 4
	onAll(t, anyKind, func(f *fixture) {
		q := f.open(options{workers: 8})
		require.NoError(f, amboy.Use(q, runMiddleware(func(next amboy.RunFunc, ctx context.Context, j amboy.Job) error {
			err := next(ctx, j)
			switch rand.IntN(20) {
			case 0:
				panic("middleware panics")
			case 1:
				return job.Snooze(time.Millisecond)
			}
			return err
		})))
		events := f.subscribe(q)
		alone := &exclusion{T: f.T, held: map[string]bool{}}
		for i := range jobs {
			id := fmt.Sprint("job ", i)
			j := f.job(id, func(ctx context.Context, j *funcJob) {
				defer alone.hold(append(j.Scopes(), id)...)()
				f.misbehave(job.NewContext(ctx, j), j)
			})
			if i%3 == 0 {
				j.SetScopes([]string{fmt.Sprint("scope ", i%5), "scope"}[:1+i%2])
			}
			f.put(q, retryable(j, attempts))
		}
		require.NoError(f, q.Start(f.ctx))
		f.drain(q)
		q.Close(context.Background())

		all := events()
		for i := range jobs {
			id := fmt.Sprint("job ", i)
			count := map[amboy.EventKind]int{}
			for _, e := range all {
				if e.JobID != id {
					continue
				}
				if e.Kind == amboy.EventStarted {
					assert.Equal(f, count[amboy.EventRetrying], e.Attempt, id)
				}
				count[e.Kind]++
				if e.Kind.IsEnd() {
					count["end"]++
				}
			}
			assert.Equal(f, 1, count["end"], id)
			assert.Equal(f, 1+count[amboy.EventRetrying]+count[amboy.EventSnoozed], count[amboy.EventStarted], id)
			assert.Less(f, count[amboy.EventRetrying], attempts, id)
		}
	})
}
