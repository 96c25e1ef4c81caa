package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

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
