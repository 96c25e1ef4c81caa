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
	"github.com/mongodb/amboy/job"
)

// order is the argument of the suite's typed jobs. They run a function of the test, which
// is found by its key.
type order struct {
	Key   int64             `bson:"key" json:"key"`
	Note  string            `bson:"note" json:"note"`
	Lines []string          `bson:"lines" json:"lines"`
	Sizes map[string]int    `bson:"sizes" json:"sizes"`
	Next  *order            `bson:"next" json:"next"`
	When  time.Time         `bson:"when" json:"when"`
	Raw   []byte            `bson:"raw" json:"raw"`
	Free  map[string]string `bson:"free,omitempty" json:"free,omitempty"`
}

// receipt is the result of the suite's typed jobs.
type receipt struct {
	Note string `bson:"note" json:"note"`
	Size int64  `bson:"size" json:"size"`
}

type serve func(ctx context.Context, o order) (receipt, error)

func runOrder(ctx context.Context, o order) (receipt, error) {
	run, ok := functions.Load(o.Key)
	if !ok {
		return receipt{}, errors.New("the test has ended")
	}
	return run.(serve)(ctx, o)
}

var (
	orders  = job.DefineResult("suite-order", 2, runOrder)
	retried = job.DefineResult("suite-retried-order", 1, runOrder, job.Defaults[order]{MaxAttempts: 3})
	scoped  = job.DefineResult("suite-scoped-order", 1, runOrder, job.Defaults[order]{
		Scopes:        func(o order) []string { return []string{o.Note} },
		EnqueueScopes: true,
		Priority:      3,
		Tags:          []string{"suite"},
		Timeout:       time.Minute,
	})
	words = job.DefineResult("suite-word", 1, func(_ context.Context, word string) (int, error) { return len(word), nil })
	maybe = job.DefineResult("suite-maybe", 1, func(_ context.Context, n *int) (*int, error) { return n, nil })
)

// order returns an order that runs a function.
func (f *fixture) order(run serve) order {
	f.Helper()
	o := order{Key: lastKey.Add(1)}
	functions.Store(o.Key, run)
	f.Cleanup(func() { functions.Delete(o.Key) })
	return o
}

// quick returns an order that is served at once.
func (f *fixture) quick() order {
	f.Helper()
	return f.order(func(context.Context, order) (receipt, error) { return receipt{}, nil })
}

// putOrder puts an order that must be accepted.
func (f *fixture) putOrder(q amboy.Queue, d *job.ResultDefinition[order, receipt], o order, opts ...job.Option) (id string) {
	f.Helper()
	id, err := d.Put(f.ctx, q, o, opts...)
	require.NoError(f, err)
	require.NotEmpty(f, id)
	return id
}

func TestATypedJobReceivesItsArguments(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		var got order
		want := f.order(func(_ context.Context, o order) (receipt, error) {
			got = o
			return receipt{}, nil
		})
		want.Note, want.Lines, want.Sizes = "ünï\x01", []string{"a", ""}, map[string]int{"x": -1 << 40}
		want.Next, want.When, want.Raw = &order{Note: "inner", Lines: []string{}, Sizes: map[string]int{}, Raw: []byte{}}, time.UnixMilli(1e12).UTC(), []byte{0, 255}
		id := f.putOrder(q, orders, want)
		f.drain(q)
		assert.True(f, want.When.Equal(got.When))
		got.When = want.When
		got.Next.When = got.Next.When.UTC()
		assert.Equal(f, want, got)
		assert.Equal(f, amboy.JobType{Name: "suite-order", Version: 2}, f.info(q, id).Type)
	})
}

func TestATypedJobHasArgumentsOfAnyKind(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		word, err := words.Put(f.ctx, q, "hello")
		require.NoError(f, err)
		none, err := maybe.Put(f.ctx, q, nil)
		require.NoError(f, err)
		one, err := maybe.Put(f.ctx, q, new(1))
		require.NoError(f, err)
		f.drain(q)
		length, err := words.Result(f.ctx, q, word)
		require.NoError(f, err)
		assert.Equal(f, 5, length)
		n, err := maybe.Result(f.ctx, q, none)
		require.NoError(f, err)
		assert.Nil(f, n)
		n, err = maybe.Result(f.ctx, q, one)
		require.NoError(f, err)
		assert.Equal(f, new(1), n)

		j, ok := q.Get(f.ctx, word)
		require.True(f, ok)
		args, err := words.Args(j)
		require.NoError(f, err)
		assert.Equal(f, "hello", args)
	})
}

func TestResultOfATypedJob(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		done := f.putOrder(q, orders, f.order(func(context.Context, order) (receipt, error) {
			return receipt{Note: "done", Size: 1 << 40}, nil
		}))
		failed := f.putOrder(q, orders, f.order(func(context.Context, order) (receipt, error) {
			return receipt{Note: "half"}, errors.New("no paper")
		}))
		later := f.putOrder(q, orders, f.quick(), job.In(time.Hour))
		for _, id := range []string{done, failed} {
			j, ok := q.Get(f.ctx, id)
			require.True(f, ok)
			require.True(f, amboy.WaitJob(f.ctx, j, q))
		}

		got, err := orders.Result(f.ctx, q, done)
		require.NoError(f, err)
		assert.Equal(f, receipt{Note: "done", Size: 1 << 40}, got)

		_, err = orders.Result(f.ctx, q, failed)
		var none *job.NoResultError
		require.ErrorAs(f, err, &none)
		assert.Equal(f, amboy.StateFailed, none.State)
		require.ErrorContains(f, err, "no paper")

		_, err = orders.Result(f.ctx, q, later)
		require.ErrorAs(f, err, &none)
		assert.Equal(f, &job.NoResultError{JobID: later, State: amboy.StateScheduled}, none)

		_, err = orders.Result(f.ctx, q, "nobody")
		assert.True(f, amboy.IsJobNotFoundError(err), "%v", err)

		_, err = words.Result(f.ctx, q, done)
		var wrong *job.WrongTypeError
		require.ErrorAs(f, err, &wrong)
		assert.Equal(f, &job.WrongTypeError{JobID: done, Want: "suite-word", Have: "suite-order"}, wrong)
	})
}

func TestResultIsReadInAnotherProcess(t *testing.T) {
	onThose(t, shared, func(f *fixture) {
		reader, worker := f.open(options{}), f.start(options{})
		id := f.putOrder(worker, orders, f.order(func(context.Context, order) (receipt, error) {
			return receipt{Note: "done"}, nil
		}))
		f.drain(worker)
		got, err := orders.Result(f.ctx, reader, id)
		require.NoError(f, err)
		assert.Equal(f, receipt{Note: "done"}, got)
	})
}

func TestResultComesFromTheLastAttempt(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		id := f.putOrder(q, retried, f.order(func(ctx context.Context, _ order) (receipt, error) {
			if attempt := job.AttemptFrom(ctx); attempt < 2 {
				return receipt{Note: "half"}, fmt.Errorf("attempt %d", attempt)
			}
			return receipt{Note: "third"}, nil
		}))
		f.drain(q)
		got, err := retried.Result(f.ctx, q, id)
		require.NoError(f, err)
		assert.Equal(f, receipt{Note: "third"}, got)
		assert.Equal(f, 2, f.info(q, id).Retry.CurrentAttempt)
	})
}

func TestATypedJobFails(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		var runs journal
		fails := f.order(func(context.Context, order) (receipt, error) {
			runs.add("run")
			return receipt{}, errors.New("no")
		})
		once := f.putOrder(q, orders, fails)
		f.drain(q)
		assert.Len(f, runs.all(), 1)
		assert.Equal(f, amboy.StateFailed, f.state(q, once))

		thrice := f.putOrder(q, retried, fails)
		f.drain(q)
		assert.Len(f, runs.all(), 4)
		assert.Equal(f, amboy.StateFailed, f.state(q, thrice))

		f.putOrder(q, retried, fails, job.MaxAttempts(1))
		f.drain(q)
		assert.Len(f, runs.all(), 5)

		f.putOrder(q, orders, fails, job.MaxAttempts(2))
		f.drain(q)
		assert.Len(f, runs.all(), 7)

		f.putOrder(q, retried, f.order(func(context.Context, order) (receipt, error) {
			runs.add("run")
			return receipt{}, amboy.NonRetryable(errors.New("never"))
		}))
		f.drain(q)
		assert.Len(f, runs.all(), 8)

		panics := f.putOrder(q, orders, f.order(func(context.Context, order) (receipt, error) { panic("oh") }))
		f.drain(q)
		assert.Equal(f, []string{"panic: oh"}, f.info(q, panics).Status.Errors)
	})
}

func TestATypedJobHasItsDefaults(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		o := f.quick()
		o.Note = "bucket"
		id := f.putOrder(q, scoped, o)
		other := f.putOrder(q, scoped, o, job.Priority(-1), job.Scopes("a", "b", "a"), job.Timeout(time.Hour),
			job.Tags("x", "y"), job.DispatchBy(time.Now().Add(time.Hour)), job.MaxAttempts(4))
		none := f.putOrder(q, scoped, o, job.Scopes(), job.ID("none"))
		assert.Equal(f, "none", none)

		j, ok := q.Get(f.ctx, id)
		require.True(f, ok)
		assert.Equal(f, []string{"bucket"}, j.Scopes())
		assert.Equal(f, []string{"bucket"}, j.EnqueueScopes())
		assert.Equal(f, 3, amboy.PriorityOf(j))
		assert.Equal(f, []string{"suite"}, amboy.TagsOf(j))
		assert.Equal(f, time.Minute, j.TimeInfo().MaxTime)
		assert.False(f, j.RetryInfo().Retryable)

		j, ok = q.Get(f.ctx, other)
		require.True(f, ok)
		assert.Equal(f, []string{"a", "b"}, j.Scopes())
		assert.Equal(f, -1, amboy.PriorityOf(j))
		assert.Equal(f, []string{"x", "y"}, amboy.TagsOf(j))
		assert.Equal(f, time.Hour, j.TimeInfo().MaxTime)
		assert.False(f, j.TimeInfo().DispatchBy.IsZero())
		assert.Equal(f, 4, j.RetryInfo().MaxAttempts)

		j, ok = q.Get(f.ctx, none)
		require.True(f, ok)
		assert.Empty(f, j.Scopes())

		_, err := scoped.Put(f.ctx, q, o)
		assert.True(f, amboy.IsDuplicateJobScopeError(err), "%v", err)
	})
}

func TestTypedJobsWaitForTheirTimeAndForOthers(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		for range 2 { // by the second time, the clock of amboytest's queue has moved
			began := map[string]time.Time{}
			note := func(name string) order {
				return f.order(func(context.Context, order) (receipt, error) {
					began[name] = amboy.Now(q)
					return receipt{}, nil
				})
			}
			put := amboy.Now(q)
			late := f.putOrder(q, orders, note("late"), job.In(short))
			f.putOrder(q, orders, note("after"), job.After(late, late))
			f.putOrder(q, orders, note("at"), job.At(put.Add(-time.Hour)))
			f.drain(q)
			require.Len(f, began, 3)
			assert.False(f, began["late"].Before(put.Add(short)))
			assert.False(f, began["after"].Before(began["late"]))
		}

		_, err := orders.Put(f.ctx, q, f.quick(), job.After("nobody"))
		var invalid *amboy.InvalidJobError
		assert.ErrorAs(f, err, &invalid)
	})
}

func TestTheArgumentsOfATypedJobLostTheirNilSlices(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		given := f.quick()
		given.Lines, given.Sizes, given.When = nil, map[string]int{}, time.Date(2100, 1, 2, 3, 4, 5, 678_901_234, time.UTC)
		j, ok := q.Get(f.ctx, f.putOrder(q, orders, given))
		require.True(f, ok)
		got, err := orders.Args(j)
		require.NoError(f, err)
		assert.Equal(f, given, got)
	})
}

func TestIDOfATypedJob(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		o := f.quick()
		first := f.putOrder(q, orders, o)
		assert.NotEqual(f, first, f.putOrder(q, orders, o))
		f.putOrder(q, orders, o, job.ID("mine"))

		_, err := orders.Put(f.ctx, q, o, job.ID("mine"))
		assert.True(f, amboy.IsDuplicateJobError(err), "%v", err)
		var taken *job.IDTakenError
		assert.NotErrorAs(f, err, &taken)

		id, err := words.Put(f.ctx, q, "word", job.ID("mine"))
		require.ErrorAs(f, err, &taken)
		assert.Empty(f, id)
		assert.Equal(f, []string{"mine", "suite-word", "suite-order"}, []string{taken.ID, taken.Type, taken.Holder})
		assert.True(f, amboy.IsDuplicateJobError(err), "%v", err)
	})
}

func TestUniqueTypedJobs(t *testing.T) {
	type put struct {
		order   order
		unique  job.Uniqueness
		refused bool
	}
	a, b := order{Note: "a"}, order{Note: "b"}
	for name, puts := range map[string][]put{
		"by nothing": {{order: a}, {order: a}},
		"by args": {
			{order: a, unique: job.Uniqueness{Args: true}},
			{order: b, unique: job.Uniqueness{Args: true}},
			{order: a, unique: job.Uniqueness{Args: true}, refused: true},
			{order: a},
		},
		"by key": {
			{order: a, unique: job.Uniqueness{Key: "k"}},
			{order: b, unique: job.Uniqueness{Key: "l"}},
			{order: b, unique: job.Uniqueness{Key: "k"}, refused: true},
		},
		"by period": {
			{order: a, unique: job.Uniqueness{Period: 1e6 * time.Hour}},
			{order: b, unique: job.Uniqueness{Period: 1e6 * time.Hour}, refused: true},
			{order: b, unique: job.Uniqueness{Period: 2e6 * time.Hour}},
		},
		"by both": {
			{order: a, unique: job.Uniqueness{Args: true, Period: 1e6 * time.Hour}},
			{order: b, unique: job.Uniqueness{Args: true, Period: 1e6 * time.Hour}},
			{order: b, unique: job.Uniqueness{Args: true, Period: 1e6 * time.Hour}, refused: true},
			{order: b, unique: job.Uniqueness{Args: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(f *fixture) {
				q := f.open(options{})
				for i, p := range puts {
					_, err := orders.Put(f.ctx, q, p.order, job.Unique(p.unique))
					if p.refused {
						assert.True(f, amboy.IsDuplicateJobError(err), "job %d: %v", i, err)
						continue
					}
					require.NoError(f, err, "job %d", i)
				}
			})
		})
	}
}

func TestHowLongATypedJobIsUnique(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		o := f.quick()
		ended := job.Unique(job.Uniqueness{Args: true})
		f.putOrder(q, orders, o, ended)
		f.drain(q)
		f.putOrder(q, orders, o, ended)
		f.drain(q)

		period := job.Unique(job.Uniqueness{Args: true, Period: 1e6 * time.Hour})
		f.putOrder(q, orders, o, period)
		f.drain(q)
		_, err := orders.Put(f.ctx, q, o, period)
		assert.True(f, amboy.IsDuplicateJobError(err), "%v", err)
		_, err = orders.Put(f.ctx, q, o, period, job.In(15e5*time.Hour))
		require.NoError(f, err, "a later period")

		failed := job.Unique(job.Uniqueness{Key: "k", Until: amboy.UniqueUntilFailed})
		f.putOrder(q, orders, o, failed)
		_, err = orders.Put(f.ctx, q, o, failed)
		assert.True(f, amboy.IsDuplicateJobError(err), "%v", err)
	})
}

func TestARetriedTypedJobStaysUniqueAndTagged(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		unique := job.Unique(job.Uniqueness{Args: true})
		var o order
		o = f.order(func(ctx context.Context, _ order) (receipt, error) {
			if job.AttemptFrom(ctx) == 0 {
				return receipt{}, errors.New("again")
			}
			_, err := retried.Put(ctx, amboy.QueueFromContext(ctx), o, unique)
			return receipt{Note: fmt.Sprint(amboy.IsDuplicateJobError(err))}, nil
		})
		id := f.putOrder(q, retried, o, unique, job.Tags("t"))
		f.drain(q)
		got, err := retried.Result(f.ctx, q, id)
		require.NoError(f, err)
		assert.Equal(f, "true", got.Note)
		j, ok := q.Get(f.ctx, id)
		require.True(f, ok)
		assert.Equal(f, []string{"t"}, amboy.TagsOf(j))
	})
}

func TestProgressIsVisibleWhileTheJobRuns(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		check := func(when string, fraction float64, message string, lines ...string) {
			progress := f.info(q, "job").Progress
			if !assert.NotNil(f, progress, when) {
				return
			}
			assert.InDelta(f, fraction, progress.Fraction, 1e-9, when)
			assert.Equal(f, message, progress.Message, when)
			var logged []string
			for _, line := range progress.Log {
				logged = append(logged, line.Text)
				assert.False(f, line.Time.IsZero())
			}
			assert.Equal(f, lines, logged, when)
			j, ok := q.Get(f.ctx, "job")
			if assert.True(f, ok) {
				assert.Equal(f, message, amboy.ProgressOf(j).Message, when)
			}
		}
		f.putOrder(q, orders, f.order(func(ctx context.Context, _ order) (receipt, error) {
			assert.Equal(f, "job", job.IDFrom(ctx))
			assert.Nil(f, f.info(q, "job").Progress)
			job.Log(ctx, "read %d", 1)
			check("after the first line", 0, "", "read 1")
			require.NoError(f, job.SetProgress(ctx, 0.5, "half"))
			check("half way", 0.5, "half", "read 1")
			job.Log(ctx, "read %d", 2)
			require.NoError(f, job.SetProgress(ctx, 0.75, "nearly"))
			check("nearly", 0.75, "nearly", "read 1", "read 2")
			job.Log(ctx, "read %d", 3)
			return receipt{}, nil
		}), job.ID("job"))
		f.drain(q)
		check("at the end", 0.75, "nearly", "read 1", "read 2", "read 3")
	})
}

func TestProgressBelongsToTheAttempt(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		id := f.putOrder(q, retried, f.order(func(ctx context.Context, _ order) (receipt, error) {
			if job.AttemptFrom(ctx) > 0 {
				return receipt{}, nil
			}
			require.NoError(f, job.SetProgress(ctx, 0.5, "half"))
			return receipt{}, errors.New("again")
		}))
		f.drain(q)
		assert.Nil(f, f.info(q, id).Progress)
	})
}

func TestAHandWrittenJobHasProgressToo(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		f.put(q, f.job("job", func(ctx context.Context, j *funcJob) {
			ctx = job.NewContext(ctx, j)
			require.NoError(f, job.SetProgress(ctx, 1, "all"))
			assert.Equal(f, "all", f.info(q, "job").Progress.Message)
			job.Log(ctx, "bye")
			var invalid *amboy.InvalidJobError
			assert.ErrorAs(f, job.Checkpoint(ctx, "not its arguments"), &invalid)
		}))
		f.drain(q)
		assert.Equal(f, "bye", f.info(q, "job").Progress.Log[0].Text)
	})
}

func TestATypedJobIsSnoozed(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		var snoozed time.Time
		runs := 0
		id := f.putOrder(q, orders, f.order(func(ctx context.Context, o order) (receipt, error) {
			runs++
			if o.Note == "again" {
				return receipt{Note: fmt.Sprint(job.AttemptFrom(ctx), " ", amboy.Now(q).Sub(snoozed) >= short)}, nil
			}
			o.Note = "again"
			require.NoError(f, job.Checkpoint(ctx, o))
			snoozed = amboy.Now(q)
			return receipt{}, job.Snooze(short)
		}), job.In(short))
		f.drain(q)
		assert.Equal(f, 2, runs)
		got, err := orders.Result(f.ctx, q, id)
		require.NoError(f, err)
		assert.Equal(f, "0 true", got.Note)

		id = f.putOrder(q, orders, f.order(func(context.Context, order) (receipt, error) {
			return receipt{}, job.Snooze(-time.Second)
		}))
		f.drain(q)
		assert.Contains(f, f.info(q, id).Status.Errors[0], "snooze delay must not be negative (is \"-1s\")")
	})
}

func TestATypedJobIsCanceled(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		runs := 0
		id := f.putOrder(q, retried, f.order(func(context.Context, order) (receipt, error) {
			runs++
			return receipt{}, job.Cancel(errors.New("not wanted"))
		}))
		f.drain(q)
		assert.Equal(f, 1, runs)
		info := f.info(q, id)
		assert.Equal(f, amboy.StateCanceled, info.State)
		assert.Contains(f, info.Status.Errors[0], "not wanted")
	})
}

func TestTheNextAttemptBeginsAtTheCheckpoint(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		var seen journal
		f.putOrder(q, retried, f.order(func(ctx context.Context, o order) (receipt, error) {
			seen.add(o.Note)
			o.Note += "+"
			if err := job.Checkpoint(ctx, o); err != nil {
				return receipt{}, err
			}
			return receipt{}, errors.New("again")
		}))
		f.drain(q)
		assert.Equal(f, []string{"", "+", "++"}, seen.all())
	})
}

func TestAnInterruptedJobContinuesAtItsCheckpoint(t *testing.T) {
	onThose(t, shared, func(f *fixture) {
		first := f.start(options{})
		saved := make(chan struct{})
		id := f.putOrder(first, orders, f.order(func(ctx context.Context, o order) (receipt, error) {
			if o.Note == "saved" {
				return receipt{Note: "went on"}, nil
			}
			o.Note = "saved"
			if err := job.Checkpoint(ctx, o); err != nil {
				return receipt{}, err
			}
			close(saved)
			<-ctx.Done()
			o.Note = "lost"
			require.ErrorIs(f, job.Checkpoint(ctx, o), context.Cause(ctx))
			return receipt{}, ctx.Err()
		}))
		<-saved
		second := f.open(options{})
		stop, cancel := context.WithCancel(f.ctx)
		cancel()
		first.Close(stop)
		require.NoError(f, second.Start(f.ctx))
		f.drain(second)
		got, err := orders.Result(f.ctx, second, id)
		require.NoError(f, err)
		assert.Equal(f, "went on", got.Note)
	})
}

func TestATypedJobThatCannotBeStored(t *testing.T) {
	onThose(t, stored, func(f *fixture) {
		q := f.start(options{})
		_, err := anything.Put(f.ctx, q, map[string]any{"c": make(chan int)})
		require.Error(f, err)
		require.ErrorContains(f, err, `args (of Go type map[string]interface {})`)

		id, err := anything.Put(f.ctx, q, map[string]any{"leave": "channel"})
		require.NoError(f, err)
		f.drain(q)
		info := f.info(q, id)
		assert.Equal(f, amboy.StateFailed, info.State)
		assert.Contains(f, info.Status.Errors[0], "result")
	})
}

var anything = job.DefineResult("suite-anything", 1, func(_ context.Context, args map[string]any) (any, error) {
	if args["leave"] == "channel" {
		return make(chan int), nil
	}
	return nil, nil
})

// loose is a job whose value may be impossible to store.
type loose struct {
	Value any `bson:"value" json:"value"`
}

var loosely = job.DefineResult("suite-loose", 1, func(ctx context.Context, do loose) (any, error) {
	switch do.Value {
	case "bad checkpoint":
		err := job.Checkpoint(ctx, loose{func() {}})
		return fmt.Sprint(err != nil), nil
	case "bad result":
		job.Log(ctx, "stored at once")
		job.Log(ctx, "not yet stored")
		return func() {}, nil
	default: // a sub-job
		job.Log(ctx, "here")
		err := job.SetProgress(ctx, 0.5, "half")
		return nil, errors.Join(err, job.Checkpoint(ctx, do))
	}
})

func TestACheckpointThatCannotBeStoredChangesNothing(t *testing.T) {
	onThose(t, stored, func(f *fixture) {
		q := f.start(options{})
		id, err := loosely.Put(f.ctx, q, loose{"bad checkpoint"})
		require.NoError(f, err)
		f.drain(q)
		refused, err := loosely.Result(f.ctx, q, id)
		require.NoError(f, err)
		assert.Equal(f, "true", refused)
	})
}

func TestAJobWhoseResultCannotBeStoredKeepsItsLog(t *testing.T) {
	onThose(t, stored, func(f *fixture) {
		q := f.start(options{})
		id, err := loosely.Put(f.ctx, q, loose{"bad result"})
		require.NoError(f, err)
		f.drain(q)
		info := f.info(q, id)
		assert.Equal(f, amboy.StateFailed, info.State)
		assert.Contains(f, info.Status.Errors[0], "result (of Go type *interface {}) can't be encoded")
		assert.Len(f, info.Progress.Log, 2)
	})
}

func TestASubJobHasNoQueueToReportTo(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		sub, err := loosely.New(loose{"sub-job"}, job.ID("sub"))
		require.NoError(f, err)
		group := job.NewGroup("group")
		require.NoError(f, group.Add(sub))
		f.put(q, group)
		f.drain(q)
		info := f.info(q, "group")
		assert.Equal(f, amboy.StateSucceeded, info.State, info.Status.Errors)
	})
}
