package amboy_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
)

// fakeGroup makes its queues on first use.
type fakeGroup struct {
	amboy.QueueGroup
	queues map[string]*fakeQueue
	errs   map[string]error
}

func (g *fakeGroup) Get(_ context.Context, id string, _ ...amboy.QueueOptions) (amboy.Queue, error) {
	if err := g.errs[id]; err != nil {
		return nil, err
	}
	q, ok := g.queues[id]
	if !ok {
		q = &fakeQueue{id: id}
		g.queues[id] = q
	}
	return q, nil
}

// starters start an operation on a queue, and on a queue of a group.
var starters = map[string]func(ctx context.Context, q *fakeQueue, interval time.Duration, startAt time.Time, conf amboy.QueueOperationConfig, op amboy.QueueOperation){
	"queue": func(ctx context.Context, q *fakeQueue, interval time.Duration, startAt time.Time, conf amboy.QueueOperationConfig, op amboy.QueueOperation) {
		amboy.IntervalQueueOperation(ctx, q, interval, startAt, conf, op)
	},
	"group": func(ctx context.Context, q *fakeQueue, interval time.Duration, startAt time.Time, conf amboy.QueueOperationConfig, op amboy.QueueOperation) {
		group := &fakeGroup{queues: map[string]*fakeQueue{q.id: q}}
		amboy.IntervalGroupQueueOperation(ctx, group, interval, startAt, conf, amboy.GroupQueueOperation{Operation: op, Queue: q.id})
	},
}

func TestIntervalOperationSchedule(t *testing.T) {
	for _, test := range []struct {
		name     string
		start    time.Time // begin plus startIn if zero
		startIn  time.Duration
		interval time.Duration
		takes    []time.Duration
		until    time.Duration
		want     []time.Duration
	}{
		{
			name: "at once", interval: time.Minute, until: 150 * time.Second,
			want: []time.Duration{0, time.Minute, 2 * time.Minute},
		},
		{
			name: "start time in the past", startIn: -1000*time.Hour - 40*time.Second, interval: time.Minute, until: 90 * time.Second,
			want: []time.Duration{20 * time.Second, 80 * time.Second},
		},
		{
			name: "start time just past", startIn: -1, interval: time.Minute, until: time.Minute,
			want: []time.Duration{time.Minute - 1},
		},
		{
			name: "start time whole intervals past", startIn: -3 * time.Minute, interval: time.Minute, until: 90 * time.Second,
			want: []time.Duration{0, time.Minute},
		},
		{
			// An hourly operation runs at full hours in UTC.
			name: "start time further past than a duration", start: time.Date(1, 1, 1, 0, 10, 0, 0, time.UTC), interval: time.Hour, until: 2 * time.Hour,
			want: []time.Duration{10 * time.Minute, 70 * time.Minute},
		},
		{
			name: "start time past, longest interval", startIn: -time.Hour, interval: 1<<63 - 1, until: time.Hour,
		},
		{
			name: "start time in the future", startIn: 10 * time.Second, interval: time.Minute, until: 2 * time.Minute,
			want: []time.Duration{10 * time.Second, 70 * time.Second},
		},
		{
			name: "ends before the start", startIn: time.Minute, interval: time.Second, until: 59 * time.Second,
		},
		{
			name: "no drift", interval: time.Minute, until: 190 * time.Second,
			takes: []time.Duration{10 * time.Second, 59 * time.Second, time.Second, 0},
			want:  []time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute},
		},
		{
			name: "skips passed times", interval: time.Minute, until: 6*time.Minute - 1,
			takes: []time.Duration{90 * time.Second, 150 * time.Second, 0},
			want:  []time.Duration{0, 2 * time.Minute, 5 * time.Minute},
		},
		{
			name: "shortest interval", interval: time.Microsecond + 1, until: 3 * time.Microsecond,
			want: []time.Duration{0, time.Microsecond + 1, 2*time.Microsecond + 2},
		},
		{
			name: "longest interval", interval: 1<<63 - 1, until: time.Hour, takes: []time.Duration{time.Minute},
			want: []time.Duration{0},
		},
	} {
		for name, start := range starters {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), test.until)
					defer cancel()
					begin := time.Now()
					var ran []time.Duration
					q := &fakeQueue{id: "q"}
					startAt := test.start
					if startAt.IsZero() {
						startAt = begin.Add(test.startIn)
					}
					start(ctx, q, test.interval, startAt, amboy.QueueOperationConfig{}, func(given context.Context, on amboy.Queue) error {
						assert.Equal(t, ctx, given)
						assert.Same(t, q, on)
						if len(ran) < len(test.takes) {
							defer func(takes time.Duration) { <-time.After(takes) }(test.takes[len(ran)])
						}
						ran = append(ran, time.Since(begin))
						return nil
					})
					assert.Equal(t, begin, time.Now(), "the call returns at once")
					<-ctx.Done()
					// The test fails if the operation's goroutine stays.
					synctest.Wait()
					assert.Equal(t, test.want, ran)
				})
			})
		}
	}
}

func TestIntervalOperationDoesNotRunUnderAnEndedContext(t *testing.T) {
	for name, start := range starters {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				start(ctx, &fakeQueue{id: "q"}, time.Minute, time.Now(), amboy.QueueOperationConfig{}, func(context.Context, amboy.Queue) error {
					assert.Fail(t, "the operation ran")
					return nil
				})
				synctest.Wait()
			})
		})
	}
}

func TestIntervalOperationErrors(t *testing.T) {
	duplicates := amboy.CollateWriteErrors([]error{errDuplicate, errDuplicate})
	duplicateAndPlain := amboy.CollateWriteErrors([]error{errDuplicate, errPlain})
	const runs = 3

	for _, test := range []struct {
		name string
		conf amboy.QueueOperationConfig
		err  error
		// wantRuns is 1 if the error stops the operation; otherwise it equals runs.
		wantRuns  int
		wantLevel level.Priority
		wantError string
	}{
		{name: "no error", wantRuns: runs},
		{name: "no error, all logged", conf: amboy.QueueOperationConfig{LogErrors: true}, wantRuns: runs},

		{name: "error", err: errPlain, wantRuns: 1, wantLevel: level.Warning, wantError: "disk is full"},
		{name: "logged", conf: amboy.QueueOperationConfig{LogErrors: true}, err: errPlain, wantRuns: 1, wantLevel: level.Error, wantError: "disk is full"},
		{name: "continued", conf: amboy.QueueOperationConfig{ContinueOnError: true}, err: errPlain, wantRuns: runs},
		{
			name: "continued and logged", conf: amboy.QueueOperationConfig{ContinueOnError: true, LogErrors: true}, err: errPlain,
			wantRuns: runs, wantLevel: level.Error, wantError: "disk is full",
		},

		{name: "duplicate job", conf: amboy.QueueOperationConfig{LogErrors: true}, err: errDuplicate, wantRuns: runs},
		{name: "duplicate jobs", conf: amboy.QueueOperationConfig{LogErrors: true}, err: duplicates, wantRuns: runs},
		{
			name: "duplicate job, reported", conf: amboy.QueueOperationConfig{EnableDuplicateJobReporting: true}, err: errDuplicate,
			wantRuns: 1, wantLevel: level.Warning, wantError: "job is taken",
		},
		{
			name: "duplicate jobs, reported and continued",
			conf: amboy.QueueOperationConfig{EnableDuplicateJobReporting: true, ContinueOnError: true, LogErrors: true}, err: duplicates,
			wantRuns: runs, wantLevel: level.Error, wantError: `job is taken\njob is taken`,
		},
		{name: "duplicate scope", err: errScope, wantRuns: 1, wantLevel: level.Warning, wantError: "scope is held"},
		{name: "duplicate job and plain", err: duplicateAndPlain, wantRuns: 1, wantLevel: level.Warning, wantError: "disk is full"},
		{
			name: "duplicate jobs and plain, joined", err: errors.Join(duplicates, errPlain),
			wantRuns: 1, wantLevel: level.Warning, wantError: "disk is full",
		},
	} {
		for name, start := range starters {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					logged := captureLogs(t)
					ctx, cancel := context.WithTimeout(t.Context(), runs*time.Minute-1)
					defer cancel()
					ran := 0
					start(ctx, &fakeQueue{id: "q"}, time.Minute, time.Now(), test.conf, func(context.Context, amboy.Queue) error {
						ran++
						return test.err
					})
					<-ctx.Done()
					synctest.Wait()
					assert.Equal(t, test.wantRuns, ran)

					entries := logged()
					if test.wantError == "" {
						assert.Empty(t, entries)
						return
					}
					assert.Len(t, entries, test.wantRuns)
					for _, entry := range entries {
						assert.Equal(t, test.wantLevel, entry.level)
						assert.Equal(t, "q", entry.fields["queue"])
						assert.Equal(t, test.wantError, entry.fields["error"])
						assert.Equal(t, !test.conf.ContinueOnError, entry.fields["stops"])
					}
				})
			})
		}
	}
}

func TestIntervalOperationPanics(t *testing.T) {
	for name, start := range starters {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logged := captureLogs(t)
				ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
				defer cancel()
				conf := amboy.QueueOperationConfig{ContinueOnError: true, LogErrors: true}
				start(ctx, &fakeQueue{id: "q"}, time.Minute, time.Now(), conf, func(context.Context, amboy.Queue) error {
					panicForTheStack()
					return nil
				})
				<-ctx.Done()
				synctest.Wait()
				entries := logged()
				require.Len(t, entries, 2, "it ran again")
				for _, entry := range entries {
					assert.Equal(t, level.Error, entry.level)
					assert.Equal(t, "panic: boom", entry.fields["error"])
					assert.Contains(t, entry.fields["stack"], "panicForTheStack")
				}
			})
		})
	}
}

// An operation that ended its goroutine, as a failed assertion of a test does, never ran again, and nothing was logged.
func TestAnIntervalOperationThatEndedItsGoroutineNeverRanAgain(t *testing.T) {
	exit := func(context.Context, amboy.Queue) error {
		runtime.Goexit()
		return nil
	}
	for name, start := range starters {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logged := captureLogs(t)
				ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
				defer cancel()
				conf := amboy.QueueOperationConfig{ContinueOnError: true, LogErrors: true}
				second := 0
				start(ctx, &fakeQueue{id: "q"}, time.Minute, time.Now(), conf, amboy.GroupQueueOperationFactory(exit, func(context.Context, amboy.Queue) error {
					second++
					return nil
				}))
				start(ctx, &fakeQueue{id: "q"}, time.Minute, time.Now(), conf, exit)
				<-ctx.Done()
				synctest.Wait()
				assert.Equal(t, 2, second, "it does not depend on the first")
				entries := logged()
				require.Len(t, entries, 4)
				for _, entry := range entries {
					assert.Equal(t, level.Error, entry.level)
					assert.Equal(t, "the operation's goroutine ended before it returned", entry.fields["error"])
				}
			})
		})
	}
}

func TestIntervalOperationThreshold(t *testing.T) {
	for _, test := range []struct {
		name    string
		conf    amboy.QueueOperationConfig
		pending int
		want    bool
	}{
		{"not respected", amboy.QueueOperationConfig{Threshold: 4}, 100, true},
		{"below", amboy.QueueOperationConfig{RespectThreshold: true, Threshold: 4}, 3, true},
		{"at", amboy.QueueOperationConfig{RespectThreshold: true, Threshold: 4}, 4, true},
		{"above", amboy.QueueOperationConfig{RespectThreshold: true, Threshold: 4}, 5, false},
		{"zero", amboy.QueueOperationConfig{RespectThreshold: true}, 0, true},
		{"above zero", amboy.QueueOperationConfig{RespectThreshold: true}, 1, false},
	} {
		for name, start := range starters {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					logged := captureLogs(t)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var pending, ran atomic.Int64
					pending.Store(int64(test.pending))
					q := &fakeQueue{id: "q", stats: func(context.Context) amboy.QueueStats {
						return amboy.QueueStats{Total: 1000, Pending: int(pending.Load()), Running: 500}
					}}
					test.conf.DebugLogging = true
					start(ctx, q, time.Minute, time.Now(), test.conf, func(context.Context, amboy.Queue) error {
						ran.Add(1)
						return nil
					})
					synctest.Wait()
					wantRan := int64(0)
					if test.want {
						wantRan = 1
					}
					assert.Equal(t, wantRan, ran.Load())
					entries := logged()
					require.Len(t, entries, 1, "both a run and a skipped run are logged")
					assert.Equal(t, level.Debug, entries[0].level)
					if !test.want {
						assert.Equal(t, test.pending, entries[0].fields["pending"])
						assert.Equal(t, test.conf.Threshold, entries[0].fields["threshold"])
					}

					pending.Store(0)
					<-time.After(time.Minute)
					synctest.Wait()
					assert.Equal(t, wantRan+1, ran.Load(), "a skipped run does not stop the operation")
				})
			})
		}
	}
}

func TestIntervalOperationRanBecauseThePendingJobsCouldNotBeCounted(t *testing.T) {
	for name, start := range starters {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logged := captureLogs(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var counted atomic.Bool
				q := &fakeQueue{id: "q", stats: func(context.Context) amboy.QueueStats {
					if counted.Load() {
						return amboy.QueueStats{}
					}
					return amboy.QueueStats{Err: errPlain}
				}}
				ran := 0
				conf := amboy.QueueOperationConfig{RespectThreshold: true, Threshold: 4, ContinueOnError: true, LogErrors: true}
				start(ctx, q, time.Minute, time.Now(), conf, func(context.Context, amboy.Queue) error {
					ran++
					return nil
				})
				synctest.Wait()
				assert.Zero(t, ran)
				entries := logged()
				require.Len(t, entries, 1)
				assert.Contains(t, entries[0].fields["error"], errPlain.Error())

				counted.Store(true)
				<-time.After(time.Minute)
				synctest.Wait()
				assert.Equal(t, 1, ran)
			})
		})
	}
}

func TestIntervalOperationDebugLogging(t *testing.T) {
	for name, start := range starters {
		for _, debug := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					logged := captureLogs(t)
					ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
					defer cancel()
					conf := amboy.QueueOperationConfig{DebugLogging: debug}
					start(ctx, &fakeQueue{id: "q"}, time.Minute, time.Now(), conf, func(context.Context, amboy.Queue) error {
						<-time.After(time.Second)
						return nil
					})
					<-ctx.Done()
					synctest.Wait()
					entries := logged()
					if !debug {
						assert.Empty(t, entries)
						return
					}
					require.Len(t, entries, 2)
					for _, entry := range entries {
						delete(entry.fields, "metadata")
						assert.Equal(t, logEntry{level.Debug, message.Fields{
							"message": "ran a periodic queue operation", "queue": "q", "took": "1s", "failed": false,
						}}, entry)
					}
				})
			})
		}
	}
}

func TestIntervalOperationRefusesBadInput(t *testing.T) {
	op := func(context.Context, amboy.Queue) error {
		panic("the operation ran")
	}
	group := &fakeGroup{queues: map[string]*fakeQueue{}}
	groupOp := amboy.GroupQueueOperation{Operation: op, Queue: "a"}
	var conf amboy.QueueOperationConfig

	for _, test := range []struct {
		name  string
		start func(ctx context.Context)
		want  []string
	}{
		{"a microsecond", func(ctx context.Context) {
			amboy.IntervalQueueOperation(ctx, &fakeQueue{}, time.Microsecond, time.Now(), conf, op)
		}, []string{"interval", "1µs"}},
		{"no interval", func(ctx context.Context) {
			amboy.IntervalQueueOperation(ctx, &fakeQueue{}, 0, time.Now(), conf, op)
		}, []string{"interval", "0s"}},
		{"negative interval", func(ctx context.Context) {
			amboy.IntervalQueueOperation(ctx, &fakeQueue{}, -time.Minute, time.Now(), conf, op)
		}, []string{"interval", "-1m0s"}},
		{"nil queue", func(ctx context.Context) {
			amboy.IntervalQueueOperation(ctx, nil, time.Minute, time.Now(), conf, op)
		}, []string{"the queue must not be nil"}},
		{"nil operation", func(ctx context.Context) {
			amboy.IntervalQueueOperation(ctx, &fakeQueue{}, time.Minute, time.Now(), conf, nil)
		}, []string{"the operation must not be nil"}},
		{"all at once", func(ctx context.Context) {
			amboy.IntervalQueueOperation(ctx, nil, 0, time.Now(), conf, nil)
		}, []string{"interval", "queue", "operation"}},
		{"group, a microsecond", func(ctx context.Context) {
			amboy.IntervalGroupQueueOperation(ctx, group, time.Microsecond, time.Now(), conf, groupOp)
		}, []string{"interval", "1µs"}},
		{"group, nil", func(ctx context.Context) {
			amboy.IntervalGroupQueueOperation(ctx, nil, time.Minute, time.Now(), conf, groupOp)
		}, []string{"the queue group must not be nil"}},
		{"group, no operations", func(ctx context.Context) {
			amboy.IntervalGroupQueueOperation(ctx, group, time.Minute, time.Now(), conf)
		}, []string{"at least one operation"}},
		{"group, nil operation", func(ctx context.Context) {
			amboy.IntervalGroupQueueOperation(ctx, group, time.Minute, time.Now(), conf, groupOp, amboy.GroupQueueOperation{Queue: "b"})
		}, []string{`the operation on queue "b" must not be nil`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logged := captureLogs(t)
				// The context does not end, so the test fails if a goroutine was
				// started.
				test.start(context.WithoutCancel(t.Context()))
				entries := logged()
				require.Len(t, entries, 1)
				assert.Equal(t, level.Error, entries[0].level)
				for _, want := range test.want {
					assert.Contains(t, entries[0].fields["error"], want)
				}
				assert.Empty(t, group.queues)
			})
		})
	}
}

func TestIntervalGroupOperationRunsAll(t *testing.T) {
	for _, test := range []struct {
		name     string
		conf     amboy.QueueOperationConfig
		wantRuns int
	}{
		{"stops after the interval of an error", amboy.QueueOperationConfig{}, 1},
		{"continues on error", amboy.QueueOperationConfig{ContinueOnError: true}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logged := captureLogs(t)
				ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
				defer cancel()
				var ran []string
				record := func(err error) amboy.QueueOperation {
					return func(_ context.Context, q amboy.Queue) error {
						ran = append(ran, q.ID())
						return err
					}
				}
				group := &fakeGroup{queues: map[string]*fakeQueue{}, errs: map[string]error{"broken": errPlain}}
				test.conf.LogErrors = true
				amboy.IntervalGroupQueueOperation(ctx, group, time.Minute, time.Now(), test.conf,
					amboy.GroupQueueOperation{Queue: "a", Operation: record(nil)},
					amboy.GroupQueueOperation{Queue: "broken", Operation: record(nil)},
					amboy.GroupQueueOperation{Queue: "panics", Operation: record(nil), Check: func(context.Context) bool { panic("boom") }},
					amboy.GroupQueueOperation{Queue: "fails", Operation: record(errors.New("no"))},
					amboy.GroupQueueOperation{Queue: "taken", Operation: record(errDuplicate)},
					amboy.GroupQueueOperation{Queue: "unwanted", Operation: record(nil), Check: func(context.Context) bool { return false }},
					amboy.GroupQueueOperation{Queue: "wanted", Operation: record(nil), Check: func(context.Context) bool { return true }},
				)
				<-ctx.Done()
				synctest.Wait()

				var wantRan, wantErrors, gotErrors []string
				for range test.wantRuns {
					wantRan = append(wantRan, "a", "fails", "taken", "wanted")
					wantErrors = append(wantErrors, `broken: getting queue "broken" of the group: disk is full`, "panics: panic: boom", "fails: no")
				}
				for _, entry := range logged() {
					gotErrors = append(gotErrors, entry.fields["queue"].(string)+": "+entry.fields["error"].(string))
				}
				assert.Equal(t, wantRan, ran)
				assert.Equal(t, wantErrors, gotErrors)
				assert.NotContains(t, group.queues, "unwanted", "no queue is made for an operation that does not run")
			})
		})
	}
}

func TestIntervalGroupOperationStopsBetweenOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		amboy.IntervalGroupQueueOperation(ctx, &fakeGroup{queues: map[string]*fakeQueue{}}, time.Minute, time.Now(), amboy.QueueOperationConfig{},
			amboy.GroupQueueOperation{Queue: "a", Operation: func(context.Context, amboy.Queue) error {
				cancel()
				return nil
			}},
			amboy.GroupQueueOperation{Queue: "b", Operation: func(context.Context, amboy.Queue) error {
				assert.Fail(t, "the second operation ran")
				return nil
			}},
		)
		synctest.Wait()
		require.Error(t, ctx.Err())
	})
}

func TestQueueOperationConfigStoredForm(t *testing.T) {
	conf := amboy.QueueOperationConfig{
		ContinueOnError: true, DebugLogging: true, EnableDuplicateJobReporting: true, LogErrors: true,
		RespectThreshold: true, Threshold: 5,
	}
	const want = `{"continue_on_error":true,"debug_logging":true,"enable_duplicate_reporting":true,"log_errors":true,"respect_threshold":true,"threshold":5}`

	stored, err := json.Marshal(conf)
	require.NoError(t, err)
	assert.JSONEq(t, want, string(stored))
	var fromJSON amboy.QueueOperationConfig
	require.NoError(t, json.Unmarshal(stored, &fromJSON))
	assert.Equal(t, conf, fromJSON)

	stored, err = bson.Marshal(conf)
	require.NoError(t, err)
	var fromBSON amboy.QueueOperationConfig
	require.NoError(t, bson.Unmarshal(stored, &fromBSON))
	assert.Equal(t, conf, fromBSON)
}

func TestGroupQueueOperationFactory(t *testing.T) {
	var ran []string
	record := func(name string, err error) amboy.QueueOperation {
		return func(context.Context, amboy.Queue) error {
			ran = append(ran, name)
			return err
		}
	}
	panicking := func(context.Context, amboy.Queue) error { panic("boom") }

	for _, test := range []struct {
		name  string
		first amboy.QueueOperation
		rest  []amboy.QueueOperation
		ran   []string
		want  []string
		// duplicate is true if the error is a duplicate job.
		duplicate bool
	}{
		{name: "one", first: record("a", nil), ran: []string{"a"}},
		{
			name: "in order", first: record("a", nil), rest: []amboy.QueueOperation{record("b", nil), record("c", nil)},
			ran: []string{"a", "b", "c"},
		},
		{
			name: "errors", first: record("a", errPlain), rest: []amboy.QueueOperation{record("b", nil), record("c", errDuplicate)},
			ran: []string{"a", "b", "c"}, want: []string{"disk is full", "job is taken"},
		},
		{
			name: "duplicates alone", first: record("a", errDuplicate), rest: []amboy.QueueOperation{record("b", errDuplicate)},
			ran: []string{"a", "b"}, want: []string{"job is taken"}, duplicate: true,
		},
		{
			name: "panic", first: panicking, rest: []amboy.QueueOperation{record("b", nil)},
			ran: []string{"b"}, want: []string{"panic: boom"},
		},
		{
			name: "nil", first: nil, rest: []amboy.QueueOperation{record("b", nil), nil},
			ran: []string{"b"}, want: []string{"operation 1 of 3 must not be nil", "operation 3 of 3 must not be nil"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			ran = nil
			err := amboy.GroupQueueOperationFactory(test.first, test.rest...)(t.Context(), &fakeQueue{})
			assert.Equal(t, test.ran, ran)
			assert.Equal(t, len(test.want) > 0, err != nil)
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
			assert.Equal(t, test.duplicate, amboy.IsDuplicateJobError(err))
		})
	}
}

func TestScheduleFactories(t *testing.T) {
	var nilJob *testJob
	one := func(j amboy.Job) amboy.QueueOperation {
		return amboy.ScheduleJobFactory(func() amboy.Job { return j })
	}
	many := func(jobs ...amboy.Job) amboy.QueueOperation {
		return amboy.ScheduleManyJobsFactory(func() []amboy.Job { return jobs })
	}
	generator := func(jobs ...amboy.Job) amboy.QueueOperation {
		return amboy.ScheduleJobsFromGeneratorFactory(func() <-chan amboy.Job { return jobsOf(jobs...) })
	}

	for _, test := range []struct {
		name string
		op   amboy.QueueOperation
		put  []string
		want []string
	}{
		{name: "one", op: one(newJob("a")), put: []string{"a"}},
		{name: "one, refused", op: one(newJob("full")), want: []string{`job "full" in queue "q"`, "disk is full"}},
		{name: "one, nil", op: one(nil), want: []string{"must not be nil"}},
		{name: "one, nil pointer", op: one(nilJob), want: []string{"must not be nil"}},
		{name: "one, nil function", op: amboy.ScheduleJobFactory(nil), want: []string{"must not be nil"}},

		{name: "many", op: many(newJob("a"), newJob("b")), put: []string{"a", "b"}},
		{name: "many, none", op: many()},
		{name: "many, refused", op: many(newJob("full"), newJob("b")), put: []string{"b"}, want: []string{`"q"`, "disk is full"}},
		{name: "many, nil", op: many(nil, newJob("b"), nilJob), put: []string{"b"}, want: []string{`"q"`, "must not be nil"}},
		{name: "many, nil function", op: amboy.ScheduleManyJobsFactory(nil), want: []string{"must not be nil"}},

		{name: "generator", op: generator(newJob("a"), newJob("b")), put: []string{"a", "b"}},
		{name: "generator, none", op: generator()},
		{name: "generator, refused", op: generator(newJob("full"), newJob("b")), put: []string{"b"}, want: []string{`job "full" in queue "q"`, "disk is full"}},
		{name: "generator, nil", op: generator(nil, newJob("b")), put: []string{"b"}, want: []string{"must not be nil"}},
		{
			name: "generator, nil channel", op: amboy.ScheduleJobsFromGeneratorFactory(func() <-chan amboy.Job { return nil }),
			want: []string{"must not be nil"},
		},
		{name: "generator, nil function", op: amboy.ScheduleJobsFromGeneratorFactory(nil), want: []string{"must not be nil"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := &fakeQueue{id: "q", putErrs: map[string]error{"full": errPlain}}
			err := test.op(t.Context(), q)
			assert.ElementsMatch(t, test.put, q.ids())
			assert.Equal(t, len(test.want) > 0, err != nil)
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestScheduledGeneratorStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		jobs := make(chan amboy.Job, 1)
		jobs <- newJob("a")
		q := &fakeQueue{id: "q"}
		op := amboy.ScheduleJobsFromGeneratorFactory(func() <-chan amboy.Job { return jobs })
		require.ErrorIs(t, op(ctx, q), context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(start))
		assert.Equal(t, []string{"a"}, q.ids())
	})
}
