package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
	"github.com/mongodb/amboy/management"
)

func TestFilterFlags(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(t, err)
		return parsed
	}
	for line, want := range map[string]management.JobFilter{
		"":                              {},
		"--queue mail --queue reports":  {Queues: []string{"mail", "reports"}},
		`--queue ""`:                    {Queues: []string{""}},
		"--state failed,expired":        {States: []amboy.JobState{amboy.StateFailed, amboy.StateExpired}},
		"--state failed --state parked": {States: []amboy.JobState{amboy.StateFailed, amboy.StateParked}},
		"--type send,digest":            {Types: []string{"send,digest"}},
		"--tag a --tag b":               {Tags: []string{"a", "b"}},
		"--id a,b --id c":               {IDs: []string{"a,b", "c"}},
		"--id-pattern report-*":         {IDPattern: "report-*"},
		"--error 'connection refused'":  {Error: "connection refused"},
		"--scope smtp":                  {Scope: "smtp"},
		"--created-after 2h --created-before 30m": {Created: management.TimeRange{
			From: at("2026-11-21T13:00:00Z"), To: at("2026-11-21T14:30:00Z"),
		}},
		"--due-after 0s --due-before +1d": {Due: management.TimeRange{
			From: at("2026-11-21T15:00:00Z"), To: at("2026-11-22T15:00:00Z"),
		}},
		"--ended-after 2026-11-20T00:00:00Z --ended-before 2026-11-21T00:00:00.5+01:00": {Ended: management.TimeRange{
			From: at("2026-11-20T00:00:00Z"), To: at("2026-11-20T23:00:00.5Z"),
		}},
	} {
		t.Run(line, func(t *testing.T) {
			atStart(t, func(t *testing.T) {
				service := newFake()
				got := run(t, service, words(t, strings.TrimSpace("amboy jobs list "+line))[1:]...)
				require.Zero(t, got.code, got.errOut)
				for _, r := range []*management.TimeRange{&service.filter.Created, &service.filter.Due, &service.filter.Ended} {
					r.From, r.To = r.From.UTC(), r.To.UTC()
				}
				assert.Equal(t, want, service.filter)
			})
		})
	}
}

func TestInvalidTimesAreRefused(t *testing.T) {
	for _, text := range []string{"", "2", "-2h", "+-2h", "++2h", "2w", "d", "-1d", "1.5d", "99999d", "2026-11-21", "now"} {
		got := run(t, newFake(), "jobs", "list", "--created-after", text)
		assert.Equal(t, 2, got.code, text)
	}
}

// "reschedule --at 2h" meant two hours ago: all selected jobs started at once.
func TestTimesToComeWereTimesAgo(t *testing.T) {
	for _, line := range []string{"reschedule mail later --at 2h", "create mail send --due 2h", "create mail send --deadline 2h", "edit mail later --due 2h"} {
		service := newFake()
		got := run(t, service, strings.Fields("jobs "+line)...)
		assert.Equal(t, 2, got.code, line)
		assert.Contains(t, got.errOut, "must be +2h for in 2h", line)
		assert.Zero(t, run(t, service, strings.Fields(strings.Replace("jobs "+line, "2h", "+2h", 1))...).code, line)
		assert.Zero(t, run(t, service, strings.Fields(strings.Replace("jobs "+line, "2h", "2020-01-01T00:00:00Z", 1))...).code, line)
	}
}

func TestListsAreLimitedByTheFlags(t *testing.T) {
	for line, want := range map[string]int{
		"--all":              4,
		"--limit 3":          3,
		"":                   4,
		"--cursor cc --all":  2,
		"--type none":        0,
		"--newest --limit 1": 1,
	} {
		service := newFake()
		service.pageSize = 2
		got := run(t, service, strings.Fields("jobs list -o json "+line)...)
		require.Zero(t, got.code, got.errOut)
		var page management.JobPage
		require.NoError(t, json.Unmarshal([]byte(got.out), &page))
		assert.Len(t, page.Jobs, want, line)
	}
}

// The flags of the first page meant another time for the next one, which refused its cursor.
func TestTheNextPageOfAListSinceADurationWasRefused(t *testing.T) {
	atStart(t, func(t *testing.T) {
		got := run(t, newFake(), "jobs", "list", "--limit", "1", "--created-after", "5h", "--ended-before", "2026-11-22T00:00:00Z")
		assert.Zero(t, got.code)
		assert.Equal(t, "amboy: more items follow: add --cursor c with --created-after "+start.Add(-5*time.Hour).Format(time.RFC3339Nano)+", or --all\n", got.errOut)
		assert.Equal(t, 0, run(t, newFake(), "jobs", "list", "--cursor", "c", "--created-after", start.Add(-5*time.Hour).Format(time.RFC3339Nano)).code)
	})
}

// olderErrors is a service that has examined only some of the jobs with errors.
type olderErrors struct{ *fake }

func (olderErrors) ErrorGroups(context.Context, management.ErrorGroupRequest) (management.ErrorGroups, error) {
	return management.ErrorGroups{Examined: 1, Next: "c"}, nil
}

// The command has no flag --all.
func TestTheHintOfErrorsNamedAFlagThatTheCommandLacks(t *testing.T) {
	atStart(t, func(t *testing.T) {
		got := run(t, olderErrors{newFake()}, "jobs", "errors")
		assert.Equal(t, "amboy: more items follow: add --cursor c\n", got.errOut)
		got = run(t, olderErrors{newFake()}, "jobs", "errors", "--ended-after", "5h")
		assert.Equal(t, "amboy: more items follow: add --cursor c with --ended-after "+start.Add(-5*time.Hour).Format(time.RFC3339Nano)+"\n", got.errOut)
	})
}

// The repetition had another time, and so was refused as another request, although the flag says that it does nothing.
func TestARepetitionWithATimeFromNowWasRefused(t *testing.T) {
	for _, flags := range []string{"--due +2h", "--deadline +1d", "--due 0s"} {
		got := run(t, newFake(), strings.Fields("jobs create mail send --idempotency-key monday "+flags)...)
		assert.Equal(t, 2, got.code, flags)
		assert.Contains(t, got.errOut, "must be times", flags)
	}
	assert.Zero(t, run(t, newFake(), strings.Fields("jobs create mail send --idempotency-key monday --due 2030-01-01T00:00:00Z")...).code)
}

func TestActionsReachTheService(t *testing.T) {
	atStart(t, func(t *testing.T) {
		priority := -5
		for line, want := range map[string]management.Action{
			"retry":                            {Kind: management.Retry},
			"retry --ignore-dependencies":      {Kind: management.Retry, IgnoreDependencies: true},
			"cancel --reason why":              {Kind: management.Cancel, Reason: "why"},
			"park --reason why":                {Kind: management.Park, Reason: "why"},
			"release":                          {Kind: management.Release},
			"reschedule --at +2h":              {Kind: management.Reschedule, At: start.Add(2 * time.Hour)},
			"prioritize --priority -5":         {Kind: management.Prioritize, Priority: &priority},
			"complete":                         {Kind: management.Complete},
			"delete":                           {Kind: management.Delete},
			"delete --limit 7 --state expired": {Kind: management.Delete},
		} {
			service := newFake()
			args := strings.Fields("jobs " + line)
			if !strings.Contains(line, "--state") {
				args = append(args, "mail", "later")
			}
			run(t, service, append(args, "--dry-run")...)
			require.NotEmpty(t, service.acts, line)
			got := service.acts[0]
			got.At = got.At.UTC()
			assert.Equal(t, want, got.Action, line)
			assert.True(t, got.DryRun, line)
		}
	})
}

func TestActionsReadAllPages(t *testing.T) {
	service := newFake()
	service.pageSize = 1
	got := run(t, service, "jobs", "retry", "--queue", "mail", "--yes", "-o", "json")
	require.Zero(t, got.code, got.errOut)
	assert.JSONEq(t, `{"done":2,"skipped":1}`, got.out)
	assert.Len(t, service.acts, 6, "three pages of the dry run, and three of the action")
}

// failing is a service with two jobs that fail again as soon as they are retried.
type failing struct {
	*fake
	done int
}

func (f *failing) Act(_ context.Context, req management.ActRequest) (management.Acted, error) {
	if req.DryRun {
		return management.Acted{Done: 2}, nil
	}
	f.done++
	return management.Acted{Done: 1, Next: "c"}, nil
}

func TestJobsThatFailAgainAreRetriedOnlyOnce(t *testing.T) {
	service := &failing{fake: newFake()}
	got := run(t, service, "jobs", "retry", "--state", "failed", "--yes")
	assert.Zero(t, got.code, got.errOut)
	assert.Equal(t, 2, service.done)
}

func TestConfirmation(t *testing.T) {
	const question = "would be retried: 2 (scheduled: 1, failed: 1), scheduled jobs before their time; skipped: 1. Continue? [y/N] "
	for answer, goesOn := range map[string]bool{
		"y\n": true, "Yes\n": true, "y": true,
		"n\n": false, "\n": false, "": false, "yesterday\n": false,
	} {
		t.Run(answer, func(t *testing.T) {
			service := newFake()
			got := runIn(t.Context(), service, func(env *cli.Env) {
				env.Interactive, env.Stdin = true, strings.NewReader(answer)
			}, "jobs", "retry", "--queue", "mail")
			if goesOn {
				assert.Equal(t, result{out: "retried: 2, skipped: 1\n", errOut: question}, got)
				return
			}
			assert.Equal(t, result{errOut: question + "amboy: nothing was done\n", code: 6}, got)
			for _, act := range service.acts {
				assert.True(t, act.DryRun)
			}
		})
	}
}

func TestNoConfirmationIfNothingWouldChange(t *testing.T) {
	got := runIn(t.Context(), newFake(), func(env *cli.Env) { env.Interactive = true }, "jobs", "release", "--queue", "mail")
	assert.Equal(t, result{out: "released: 0, skipped: 3\n"}, got)
}

func TestInterruptedConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, interrupt) // fake time
		stdin, answer := io.Pipe()
		defer func() { assert.NoError(t, answer.Close()) }()
		service := newFake()
		got := runIn(ctx, service, func(env *cli.Env) { env.Interactive, env.Stdin = true, stdin }, "jobs", "retry", "--queue", "mail")
		assert.Equal(t, 130, got.code)
		assert.Len(t, service.acts, 1, "only the dry run")
	})
}

func TestErrorsThatAffectAllJobsStopAtTheFirst(t *testing.T) {
	service := newFake()
	service.err = refusal(403)
	got := run(t, service, "jobs", "retry", "mail", "a", "b", "c")
	assert.Equal(t, 5, got.code)
	assert.Equal(t, 1, strings.Count(got.errOut, "\n"))
}

func TestCreateReadsTheArguments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "args.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"n":1}`), 0o600))
	for _, c := range []struct {
		args, stdin, want string
	}{
		{args: ""},
		{args: `--args {"n":1}`, want: `{"n":1}`},
		{args: "--args-file " + file, want: `{"n":1}`},
		{args: "--args-file -", stdin: `{"n":1}`, want: `{"n":1}`},
	} {
		service := newFake()
		got := runIn(t.Context(), service, func(env *cli.Env) { env.Stdin = strings.NewReader(c.stdin) },
			strings.Fields("jobs create mail send "+c.args)...)
		require.Zero(t, got.code, got.errOut)
		assert.Equal(t, c.want, string(service.created.Args))
	}
}

func TestCreateSendsAllFlags(t *testing.T) {
	atStart(t, func(t *testing.T) {
		service := newFake()
		got := run(t, service, strings.Fields("jobs create mail send --id a --priority 3 --due +1h --deadline +2h --outside")...)
		require.Zero(t, got.code, got.errOut)
		service.created.Due, service.created.Deadline = service.created.Due.UTC(), service.created.Deadline.UTC()
		assert.Equal(t, management.NewJob{
			Queue: "mail", Type: "send", ID: "a", Priority: 3,
			Due: start.Add(time.Hour), Deadline: start.Add(2 * time.Hour),
			JobOptions: management.JobOptions{Outside: true},
		}, service.created)
		got = run(t, service, strings.Fields("jobs create mail send --idempotency-key k")...)
		require.Zero(t, got.code, got.errOut)
		assert.Equal(t, management.NewJob{Queue: "mail", Type: "send", IdempotencyKey: "k"}, service.created)
	})
}

func TestAuditFlags(t *testing.T) {
	atStart(t, func(t *testing.T) {
		service := newFake()
		got := run(t, service, "audit", "--actor", "ann", "--actor", "", "--what", "retry", "--job", "digest", "--queue", "mail", "--after", "2d", "--before", "1h")
		require.Zero(t, got.code, got.errOut)
		service.audited.Time.From, service.audited.Time.To = service.audited.Time.From.UTC(), service.audited.Time.To.UTC()
		assert.Equal(t, management.AuditFilter{
			Queues: []string{"mail"}, Actors: []string{"ann", ""}, What: []string{"retry"}, JobID: "digest",
			Time: management.TimeRange{From: ago(48 * time.Hour), To: ago(time.Hour)},
		}, service.audited)
	})
}
