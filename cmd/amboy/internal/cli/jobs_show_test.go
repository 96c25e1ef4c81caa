package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

func TestShowDidNotSaySinceWhenAJobIsBlockedNorWhoActed(t *testing.T) {
	atStart(t, func(t *testing.T) {
		f := newFake()
		f.jobs = []management.Job{{
			JobSummary: management.JobSummary{JobRef: management.JobRef{Queue: "mail", ID: "waits"}, Type: "send", Version: 1, State: amboy.StateBlocked},
			Blocked: &management.Block{Since: ago(time.Hour), By: []management.Blocker{
				{Job: &management.JobRef{Queue: "mail", ID: "first"}, State: amboy.StateScheduled},
				{Scope: "smtp", Job: &management.JobRef{Queue: "mail", ID: "digest"}, State: amboy.StateRunning, Since: ago(2 * time.Hour)},
			}},
			Timeline: []management.Moment{{Time: ago(time.Hour), What: "release", Actor: "ada", Detail: "fixed"}},
		}}
		got := run(t, f, "jobs", "show", "mail", "waits")
		assert.Contains(t, got.out, "blocked since  2026-11-21T14:00:00Z (1h ago)\n")
		assert.Contains(t, got.out, "blocked by     mail first, scheduled\n")
		assert.Contains(t, got.out, "blocked by     mail digest, running, which holds scope smtp since 2026-11-21T13:00:00Z (2h ago)\n")
		assert.Contains(t, got.out, "2026-11-21T14:00:00Z (1h ago)  release  by ada: fixed\n")
	})
}

func TestShownArgumentsHadEscapesOfHTML(t *testing.T) {
	f := newFake()
	f.jobs[0].Args = json.RawMessage(`{"url":"https://example.org/?a=1\u0026b=\u003c2\u003e"}`)
	got := run(t, f, "jobs", "show", "mail", "welcome-ada")
	assert.Contains(t, got.out, `"https://example.org/?a=1&b=<2>"`)
}

func TestArgumentsOf10MBPushedTheStateOfTheJobOutOfTheTerminal(t *testing.T) {
	f := newFake()
	f.jobs[0].Args = json.RawMessage(`{"text":"` + strings.Repeat("x", 10<<20) + `"}`)
	got := run(t, f, "jobs", "show", "mail", "welcome-ada")
	assert.Less(t, len(got.out), 100<<10)
	assert.Contains(t, got.out, "xxx\n  … (10485771 bytes in all; -o json prints them)\n")
	assert.Greater(t, len(run(t, f, "jobs", "show", "mail", "welcome-ada", "-o", "json").out), 10<<20)
}
