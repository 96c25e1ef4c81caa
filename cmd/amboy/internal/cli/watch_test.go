package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
	"github.com/mongodb/amboy/management"
)

func interruptible(t *testing.T) context.Context {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	time.AfterFunc(time.Minute, interrupt) // fake time
	return ctx
}

func TestWatchQueues(t *testing.T) {
	atStart(t, func(t *testing.T) {
		got := runIn(interruptible(t), newFake(), func(*cli.Env) {}, "queues", "watch", "mail", "--every", "5s")
		assert.Equal(t, result{out: strings.Join([]string{
			"2026-11-21T15:00:00Z",
			"QUEUE  PENDING  BLOCKED  RUNNING  RETRYING  COMPLETED  OLDEST  SET",
			"mail   1        0        1        0         1          5s      max-running 10",
			"",
			"2026-11-21T15:00:05Z",
			"QUEUE  PENDING  BLOCKED  RUNNING  RETRYING  COMPLETED  OLDEST  SET",
			"mail   1        0        1        0         1          10s     max-running 10",
			"", "",
		}, "\n")}, got, "an interrupt is not a failure")
	})
}

// crowded is a service with so many queues that a watch shows only the busiest.
type crowded struct{ *fake }

func (c crowded) Watch(ctx context.Context, every time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		for ctx.Err() == nil && yield([]management.Queue{{Name: "busy"}}, nil) {
			time.Sleep(every) // fake time
		}
	}
}

func TestWatchDidNotShowAQueueThatIsNotAmongTheBusiest(t *testing.T) {
	atStart(t, func(t *testing.T) {
		got := runIn(interruptible(t), crowded{newFake()}, func(*cli.Env) {}, "queues", "watch", "mail", "nobody", "--every", "50s")
		require.Zero(t, got.code, got.errOut)
		assert.Equal(t, 2, strings.Count(got.out, "\nmail   1        0        1 "), got.out)
	})
}

// unwatched is a service whose user may not read all queues, and so may not watch.
type unwatched struct{ *fake }

func (unwatched) Watch(context.Context, time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) { yield(nil, errors.New("403 Forbidden")) }
}

func TestAUserOfOneQueueCouldNotWatchIt(t *testing.T) {
	atStart(t, func(t *testing.T) {
		got := runIn(interruptible(t), unwatched{newFake()}, func(*cli.Env) {}, "queues", "watch", "mail", "--every", "25s")
		require.Zero(t, got.code, got.errOut)
		assert.Equal(t, 3, strings.Count(got.out, "\nmail   1        0        1 "), got.out)
	})
}

func TestWatchQueuesAsLines(t *testing.T) {
	atStart(t, func(t *testing.T) {
		got := runIn(interruptible(t), newFake(), func(*cli.Env) {}, "queues", "watch", "-o", "json")
		require.Zero(t, got.code, got.errOut)
		lines := strings.Split(strings.TrimSpace(got.out), "\n")
		require.Len(t, lines, 2)
		for _, line := range lines {
			var queues []management.Queue
			require.NoError(t, json.Unmarshal([]byte(line), &queues))
			assert.Len(t, queues, 2)
		}
	})
}

func TestWatchQueuesThatFails(t *testing.T) {
	service := newFake()
	service.err = io.ErrUnexpectedEOF
	got := run(t, service, "queues", "watch")
	assert.Equal(t, result{errOut: "amboy: watching queues: unexpected EOF\n", code: 1}, got)
}

func TestAWatchHasNoTimeLimit(t *testing.T) {
	for args, watches := range map[string]bool{"queues watch": true, "queues list": false} {
		var service cli.Service
		runIn(t.Context(), nil, func(env *cli.Env) {
			env.Connect = func(s cli.Service) (management.Inspector, error) {
				service = s
				return nil, errors.New("unreachable")
			}
		}, append(strings.Fields(args), "--timeout", "7s")...)
		assert.Equal(t, cli.Service{URL: "http://jobs.example", Timeout: 7 * time.Second, Watch: watches}, service)
	}
}

// changing is a service with a job that changes between reads.
type changing struct {
	*fake
	versions []management.Job
}

func (c *changing) Job(ctx context.Context, _, _ string) (management.Job, error) {
	if len(c.versions) == 0 {
		return management.Job{}, amboy.NewJobNotFoundError("no such job")
	}
	job := c.versions[0]
	if len(c.versions) > 1 || job.State.IsFinal() {
		c.versions = c.versions[1:]
	}
	return job, ctx.Err()
}

// Watch yields at once, and then each time that every has passed.
func (c *changing) Watch(ctx context.Context, every time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		for ctx.Err() == nil && yield(nil, nil) {
			time.Sleep(every) // fake time
		}
	}
}

func version(state amboy.JobState, progress *float64, message string) management.Job {
	return management.Job{
		JobSummary:      management.JobSummary{JobRef: management.JobRef{Queue: "mail", ID: "digest"}, State: state, Progress: progress},
		ProgressMessage: message,
	}
}

func TestWatchJob(t *testing.T) {
	half := version(amboy.StateRunning, new(0.5), "5 of 10")
	failed := version(amboy.StateFailed, nil, "")
	failed.Error = "no disk"
	for name, c := range map[string]struct {
		versions []management.Job
		out      string
		errOut   string
		code     int
	}{
		"succeeds": {
			versions: []management.Job{version(amboy.StatePending, nil, ""), half, half, version(amboy.StateSucceeded, nil, "")},
			out:      "2026-11-21T15:00:00Z pending\n2026-11-21T15:00:01Z running; 50%; 5 of 10\n2026-11-21T15:00:03Z succeeded\n",
		},
		"fails": {
			versions: []management.Job{half, failed},
			out:      "2026-11-21T15:00:00Z running; 50%; 5 of 10\n2026-11-21T15:00:01Z failed; no disk\n",
			code:     7,
		},
		"is canceled": {
			versions: []management.Job{version(amboy.StateCanceled, nil, "")},
			out:      "2026-11-21T15:00:00Z canceled\n",
			code:     7,
		},
		"is interrupted": {
			versions: []management.Job{half},
			out:      "2026-11-21T15:00:00Z running; 50%; 5 of 10\n",
			errOut:   "amboy: watching job \"digest\" of queue \"mail\": context canceled\n",
			code:     130,
		},
		"does not exist": {
			errOut: "amboy: watching job \"digest\" of queue \"mail\": no such job\n",
			code:   3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			atStart(t, func(t *testing.T) {
				got := runIn(interruptible(t), &changing{newFake(), c.versions}, func(*cli.Env) {},
					"jobs", "watch", "mail", "digest", "--every", "1s")
				assert.Equal(t, result{c.out, c.errOut, c.code}, got)
			})
		})
	}
}

func TestWatchJobAsLines(t *testing.T) {
	atStart(t, func(t *testing.T) {
		service := &changing{newFake(), []management.Job{version(amboy.StateRunning, nil, ""), version(amboy.StateSucceeded, nil, "")}}
		got := run(t, service, "jobs", "watch", "mail", "digest", "-o", "json")
		require.Zero(t, got.code, got.errOut)
		var states []amboy.JobState
		for line := range strings.Lines(got.out) {
			var job management.Job
			require.NoError(t, json.Unmarshal([]byte(line), &job))
			states = append(states, job.State)
		}
		assert.Equal(t, []amboy.JobState{amboy.StateRunning, amboy.StateSucceeded}, states)
	})
}

// watched is a service with a job, and with events at the given times after the start, if it allows
// them.
type watched struct {
	*fake
	job    management.Job
	change func(at time.Duration, job *management.Job)
	events []time.Duration
	denied error
	reads  []time.Duration
}

func (w *watched) Watch(ctx context.Context, _ time.Duration) iter.Seq2[[]management.Queue, error] {
	return func(yield func([]management.Queue, error) bool) {
		if w.denied != nil {
			yield(nil, w.denied)
			return
		}
		for _, at := range w.events {
			time.Sleep(time.Until(start.Add(at))) // fake time
			if !yield(nil, nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

func (w *watched) Job(context.Context, string, string) (management.Job, error) {
	at := time.Since(start)
	w.reads = append(w.reads, at)
	w.change(at, &w.job)
	return w.job, nil
}

// A watch of a job reads it after events, and otherwise only every ten seconds.
func TestWatchJobReadsAfterEvents(t *testing.T) {
	atStart(t, func(t *testing.T) {
		service := &watched{fake: newFake(), job: version(amboy.StateRunning, nil, ""), events: []time.Duration{0, 3 * time.Second, 14 * time.Second}}
		service.change = func(at time.Duration, job *management.Job) {
			if at >= 14*time.Second {
				job.State = amboy.StateSucceeded
			}
		}
		got := run(t, service, "jobs", "watch", "mail", "digest")
		assert.Equal(t, result{out: "2026-11-21T15:00:00Z running\n2026-11-21T15:00:14Z succeeded\n"}, got)
		assert.Equal(t, []time.Duration{0, 3 * time.Second, 13 * time.Second, 14 * time.Second}, service.reads)
	})
}

// A user who may read one queue gets no events about all, and yet sees the job end.
func TestWatchJobWithoutEvents(t *testing.T) {
	atStart(t, func(t *testing.T) {
		service := &watched{fake: newFake(), job: version(amboy.StateRunning, nil, ""), denied: errors.New("403 Forbidden")}
		service.change = func(at time.Duration, job *management.Job) {
			if at >= 4*time.Second {
				job.State = amboy.StateFailed
			}
		}
		got := run(t, service, "jobs", "watch", "mail", "digest", "--every", "2s")
		assert.Equal(t, result{out: "2026-11-21T15:00:00Z running\n2026-11-21T15:00:04Z failed\n", code: 7}, got)
		assert.Len(t, service.reads, 3)
	})
}

// New lines are shown once, those that were dropped in between are counted, and a new attempt has a
// log of its own.
func TestFollowLog(t *testing.T) {
	line := func(text string) amboy.LogLine { return amboy.LogLine{Time: start, Text: text} }
	atStart(t, func(t *testing.T) {
		service := &watched{fake: newFake(), job: version(amboy.StateRunning, nil, ""), events: []time.Duration{0}}
		service.change = func(at time.Duration, job *management.Job) {
			switch at {
			case 0:
				job.Log = []amboy.LogLine{line("one"), line("two\nlines")}
			case 2 * time.Second:
				job.Log = append(job.Log, line("three"))
			case 3 * time.Second:
				job.DroppedLines, job.Log = 5, []amboy.LogLine{line("six")}
			case 4 * time.Second:
				job.Attempt, job.DroppedLines, job.Log = 1, 0, []amboy.LogLine{line("again")}
			case 5 * time.Second:
				job.State = amboy.StateSucceeded
			}
		}
		got := run(t, service, "jobs", "logs", "mail", "digest", "-f")
		const at = "2026-11-21T15:00:00Z "
		assert.Equal(t, result{out: at + "one\n" + at + "two\nlines\n" + at + "three\n(2 more were dropped)\n" + at + "six\n" + at + "again\n"}, got)
		assert.Len(t, service.reads, 6)
	})
}

// A list is shown again after an event if it differs, until the user interrupts it.
func TestWatchList(t *testing.T) {
	atStart(t, func(t *testing.T) {
		service := newFake()
		ctx := interruptible(t)
		service.later, service.after = func() { service.jobs[1].State = amboy.StateSucceeded }, time.Now().Add(time.Second)
		got := runIn(ctx, service, func(*cli.Env) {}, "jobs", "list", "--id", "digest", "--watch", "-o", "json")
		assert.Zero(t, got.code, got.errOut)
		lines := strings.Split(strings.TrimSpace(got.out), "\n")
		require.Len(t, lines, 2)
		assert.Contains(t, lines[0], `"state":"running"`)
		assert.Contains(t, lines[1], `"state":"succeeded"`)
	})
}

// A narrow terminal has fewer columns rather than lines without their ends, and a wide table all.
func TestTablesFitTheTerminal(t *testing.T) {
	atStart(t, func(t *testing.T) {
		for width, heading := range map[int]string{
			0:  "QUEUE  ID           TYPE    STATE      ATTEMPT  AGE  RAN   DETAIL",
			96: "QUEUE  ID           TYPE    STATE      AGE  RAN   DETAIL",
			87: "QUEUE  ID           TYPE    STATE      AGE  DETAIL",
			80: "QUEUE  ID           STATE      AGE  DETAIL",
			40: "ID           STATE      DETAIL",
		} {
			got := runIn(t.Context(), newFake(), func(env *cli.Env) { env.Width = width }, "jobs", "list")
			lines := strings.Split(strings.TrimSpace(got.out), "\n")
			assert.Equal(t, heading, lines[0], "width %d", width)
			for _, line := range lines {
				assert.True(t, width == 0 || utf8.RuneCountInString(line) <= width, "%d: %s", width, line)
			}
			wide := runIn(t.Context(), newFake(), func(env *cli.Env) { env.Width = width }, "jobs", "list", "-o", "wide")
			assert.Contains(t, wide.out, "OWNER   TAGS     DETAIL\n")
			assert.Contains(t, wide.out, "connection refused\n")
		}
	})
}
