package suite_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// noted returns middleware that records its calls.
func noted(r *journal, name string) amboy.Middleware {
	return amboy.Middleware{
		Run: func(next amboy.RunFunc) amboy.RunFunc {
			return func(ctx context.Context, j amboy.Job) error {
				r.add(name + " before " + j.ID())
				err := next(ctx, j)
				r.add(fmt.Sprintf("%s after %s: %v", name, j.ID(), err))
				return err
			}
		},
		Put: func(next amboy.PutFunc) amboy.PutFunc {
			return func(ctx context.Context, jobs []amboy.Job) error {
				r.add(fmt.Sprintf("%s puts %d", name, len(jobs)))
				return next(ctx, jobs)
			}
		},
	}
}

func runMiddleware(run func(next amboy.RunFunc, ctx context.Context, j amboy.Job) error) amboy.Middleware {
	return amboy.Middleware{Run: func(next amboy.RunFunc) amboy.RunFunc {
		return func(ctx context.Context, j amboy.Job) error { return run(next, ctx, j) }
	}}
}

func TestTheFirstMiddlewareIsTheOutermost(t *testing.T) {
	onEach(t, func(f *fixture) {
		var calls journal
		q := f.open(options{})
		require.NoError(f, amboy.Use(q, noted(&calls, "a"), noted(&calls, "b")))
		require.NoError(f, amboy.Use(q))
		require.NoError(f, amboy.Use(q, noted(&calls, "c")))
		j := f.job("j", func(_ context.Context, j *funcJob) {
			calls.add("run")
			j.AddError(errors.New("no"))
		})
		require.NoError(f, q.Put(f.ctx, j))
		require.NoError(f, q.Start(f.ctx))
		f.drain(q)
		assert.Equal(f, []string{
			"a puts 1", "b puts 1", "c puts 1",
			"a before j", "b before j", "c before j", "run", "c after j: no", "b after j: no", "a after j: no",
		}, calls.all())
		assert.Equal(f, []string{"no"}, f.info(q, "j").Status.Errors, "an error that is passed on is not added again")
		err := amboy.Use(q, noted(&calls, "late"))
		require.ErrorIs(f, err, amboy.ErrAlreadyStarted)
	})
}

func TestMiddlewareOfPut(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		refused := errors.New("not these")
		require.NoError(f, amboy.Use(q, amboy.Middleware{Put: func(next amboy.PutFunc) amboy.PutFunc {
			return func(ctx context.Context, jobs []amboy.Job) error {
				for _, j := range jobs {
					if j.ID() == "refused" {
						return refused
					}
					if j.ID() == "panics" {
						panic("no")
					}
					j.(amboy.MetadataJob).SetMetadata("from", "put")
				}
				return next(ctx, jobs)
			}
		}}))
		require.NoError(f, q.Start(f.ctx))
		metadata := make(chan string, 2)
		run := func(_ context.Context, j *funcJob) {
			metadata <- j.Metadata()["from"]
			if j.RetryInfo().CurrentAttempt == 0 {
				j.AddRetryableError(errors.New("no"))
			}
		}
		require.NoError(f, q.Put(f.ctx, retryable(f.job("accepted", run), 2)))
		require.ErrorIs(f, q.PutMany(f.ctx, []amboy.Job{f.job("refused", run), f.job("fine", run)}), refused)
		var panicked *amboy.PanicError
		require.ErrorAs(f, q.Put(f.ctx, f.job("panics", run)), &panicked)
		var invalid *amboy.InvalidJobError
		require.ErrorAs(f, q.PutMany(f.ctx, []amboy.Job{nil, (*funcJob)(nil)}), &invalid, "middleware never sees a nil job")
		require.True(f, amboy.IsDuplicateJobError(q.Put(f.ctx, f.job("accepted", run))))
		f.drain(q)
		assert.Equal(f, "put", <-metadata)
		assert.Equal(f, "put", <-metadata, "the next attempt has the metadata too")
		for info := range q.JobInfo(f.ctx) {
			assert.Equal(f, "accepted", info.ID)
		}
	})
}

func TestMiddlewareDecidesHowAnAttemptEnds(t *testing.T) {
	own := errors.New("own")
	for name, test := range map[string]struct {
		middleware func(next amboy.RunFunc, ctx context.Context, j amboy.Job) error
		run        func(*funcJob)
		attempts   int
		state      amboy.JobState
		errors     []string // of the first attempt
	}{
		"own error": {
			middleware: func(next amboy.RunFunc, ctx context.Context, j amboy.Job) error {
				_ = next(ctx, j)
				return own
			},
			attempts: 2, state: amboy.StateFailed, errors: []string{"own"},
		},
		"own error, not retryable": {
			middleware: func(amboy.RunFunc, context.Context, amboy.Job) error { return amboy.NonRetryable(own) },
			attempts:   1, state: amboy.StateFailed, errors: []string{"own"},
		},
		"panic": {
			middleware: func(amboy.RunFunc, context.Context, amboy.Job) error { panic("oops") },
			attempts:   2, state: amboy.StateFailed, errors: []string{"panic: oops"},
		},
		"wrapped error": {
			middleware: func(next amboy.RunFunc, ctx context.Context, j amboy.Job) error {
				return fmt.Errorf("wrapped: %w", next(ctx, j))
			},
			run:      func(j *funcJob) { j.AddRetryableError(errors.New("no")) },
			attempts: 2, state: amboy.StateFailed, errors: []string{"no"},
		},
		"wrapped error, not retryable": {
			middleware: func(next amboy.RunFunc, ctx context.Context, j amboy.Job) error {
				return amboy.NonRetryable(next(ctx, j))
			},
			run:      func(j *funcJob) { j.AddRetryableError(errors.New("no")) },
			attempts: 1, state: amboy.StateFailed, errors: []string{"no"},
		},
		"error left out": {
			middleware: func(next amboy.RunFunc, ctx context.Context, j amboy.Job) error {
				_ = next(ctx, j)
				return nil
			},
			run:      func(j *funcJob) { j.AddError(errors.New("no")) },
			attempts: 1, state: amboy.StateFailed, errors: []string{"no"},
		},
		"not run": {
			middleware: func(amboy.RunFunc, context.Context, amboy.Job) error { return nil },
			run:        func(*funcJob) { panic("never") },
			attempts:   1, state: amboy.StateSucceeded,
		},
		"canceled": {
			middleware: func(amboy.RunFunc, context.Context, amboy.Job) error { return &amboy.CancelError{Err: own} },
			attempts:   1, state: amboy.StateCanceled, errors: []string{"the job canceled itself: own"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(f *fixture) {
				q := f.open(options{})
				attempts := 0
				var first []string
				require.NoError(f, amboy.Use(q, runMiddleware(func(next amboy.RunFunc, ctx context.Context, j amboy.Job) error {
					attempts++
					return test.middleware(next, ctx, j)
				})))
				require.NoError(f, q.Start(f.ctx))
				f.put(q, retryable(f.job("j", func(_ context.Context, j *funcJob) {
					if test.run != nil {
						test.run(j)
					}
				}), 2))
				f.drain(q)
				info := f.info(q, "j")
				for _, e := range info.Status.Attempts {
					if e.Attempt == 0 {
						first = append(first, e.Error)
					}
				}
				assert.Equal(f, test.attempts, attempts)
				assert.Equal(f, test.state, info.State)
				assert.Equal(f, test.errors, first)
			})
		})
	}
}

func TestMiddlewareSnoozesJobs(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		asked := 0
		require.NoError(f, amboy.Use(q, runMiddleware(func(next amboy.RunFunc, ctx context.Context, j amboy.Job) error {
			asked++
			if asked == 1 {
				return &amboy.SnoozeError{Until: f.now().Add(short)}
			}
			return next(ctx, j)
		})))
		require.NoError(f, q.Start(f.ctx))
		runs := 0
		f.put(q, f.job("j", func(context.Context, *funcJob) { runs++ }))
		f.drain(q)
		assert.Equal(f, 2, asked)
		assert.Equal(f, 1, runs)
		assert.Equal(f, amboy.StateSucceeded, f.state(q, "j"))
	})
}

func TestMiddlewareLearnsHowAnAttemptEnded(t *testing.T) {
	sentinel := errors.New("sentinel")
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		seen := map[string]error{}
		require.NoError(f, amboy.Use(q, runMiddleware(func(next amboy.RunFunc, ctx context.Context, j amboy.Job) error {
			err := next(ctx, j)
			if _, ok := seen[j.ID()]; !ok {
				seen[j.ID()] = err
			}
			return err
		})))
		require.NoError(f, q.Start(f.ctx))
		snoozed := false
		late := f.job("late", func(ctx context.Context, _ *funcJob) { <-ctx.Done() })
		late.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: time.Millisecond})
		f.put(q,
			f.job("fine", func(context.Context, *funcJob) {}),
			f.job("fails", func(_ context.Context, j *funcJob) { j.AddError(fmt.Errorf("wrapped: %w", sentinel)) }),
			f.job("panics", func(context.Context, *funcJob) { panic(sentinel) }),
			late,
			f.job("snoozes", func(_ context.Context, j *funcJob) {
				if !snoozed {
					j.Snooze(f.now())
				}
				snoozed = true
			}))
		f.drain(q)
		require.NoError(f, seen["fine"])
		require.ErrorIs(f, seen["fails"], sentinel)
		var panicked *amboy.PanicError
		require.ErrorAs(f, seen["panics"], &panicked)
		require.ErrorIs(f, seen["panics"], sentinel)
		require.ErrorIs(f, seen["late"], context.DeadlineExceeded)
		var snooze *amboy.SnoozeError
		require.ErrorAs(f, seen["snoozes"], &snooze)
	})
}

func TestAJobKnowsItsQueue(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{workers: 2})
		ran := make(chan string, 1)
		f.put(q, f.job("parent", func(ctx context.Context, j *funcJob) {
			child := f.job("child", func(context.Context, *funcJob) { ran <- "child" })
			j.AddError(amboy.QueueFromContext(ctx).Put(ctx, child))
		}))
		f.drain(q)
		assert.Equal(f, "child", <-ran)
		assert.Equal(f, amboy.StateSucceeded, f.state(q, "parent"))
	})
	require.Nil(t, amboy.QueueFromContext(t.Context()))
}
