package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
	"github.com/mongodb/amboy/internal/hostiletest"
	"github.com/mongodb/amboy/management"
)

// nasty contains characters that would color a terminal, move its cursor, ring its bell,
// reorder its text or begin a line that looks like another job, and invalid UTF-8.
const nasty = "a\x1b[31m\u009b31m\x07\r\n\tmail  b\u202e\u2028\x7f\xff\U000E0001z"

// hostile returns a service in which every text is nasty.
func hostile() management.Inspector {
	return &hostiletest.Inspector{Inspector: newFake(), Text: nasty, Known: "mail"}
}

func TestNothingUnprintableReachesATerminal(t *testing.T) {
	for _, args := range [][]string{
		{"queues", "list"},
		{"queues", "show", nasty},
		{"queues", "watch"},
		{"queues", "pause", nasty},
		{"queues", nasty},
		{"jobs", "list"},
		{"jobs", "list", "--limit", "1"},
		{"jobs", "list", "--state", nasty},
		{"jobs", "list", "--due-after", nasty},
		{"jobs", "list", "--" + nasty},
		{"jobs", "show", nasty, "welcome-ada"},
		{"jobs", "show", nasty, "digest"},
		{"jobs", "show", nasty, nasty},
		{"jobs", "watch", nasty, "old"},
		{"jobs", "graph", nasty, nasty},
		{"jobs", "create", nasty, nasty},
		{"jobs", "retry", nasty, nasty},
		{"jobs", "retry", nasty},
		{"scopes"},
		{"processes"},
		{"schedules"},
		{"schedules", "list"},
		{"schedules", "show", nasty, nasty},
		{"schedules", "create", nasty, nasty, nasty, "--cron", nasty},
		{"activity"},
		{"audit"},
		{"__complete", "queues", "show", ""},
		{nasty},
	} {
		for _, format := range []string{"table", "json"} {
			for _, width := range []int{0, 60} {
				all := append([]string{"-o", format}, args...)
				if args[0] == "__complete" {
					all = args
				}
				got := runIn(t.Context(), hostile(), func(env *cli.Env) { env.Width = width }, all...)
				requirePrintable(t, got.out, args)
				requirePrintable(t, got.errOut, args)
				if format == "json" && args[0] != "__complete" && got.out != "" {
					assert.NoError(t, json.NewDecoder(strings.NewReader(got.out)).Decode(new(any)), got.out)
				}
			}
		}
	}
}

func requirePrintable(t *testing.T, text string, args []string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), "%q prints %q", args, text)
	for _, r := range text {
		require.True(t, r == '\n' || unicode.IsPrint(r), "%q prints %U in %q", args, r, text)
	}
}

func TestUnprintableTextKeepsItsPlace(t *testing.T) {
	got := run(t, hostile(), "jobs", "list", "--queue", "")
	require.Zero(t, got.code)
	assert.Equal(t, 2, strings.Count(got.out, "\n"), "a title, and a line for the only job")
	assert.Contains(t, got.out, `a\x1b[31m\u009b31m\a\r\n\tmail  b\u202e\u2028\x7f\xff\U000e0001z`)
}

// FuzzJSONStaysTheSameDocument checks that escaping does not change the meaning of JSON.
func FuzzJSONStaysTheSameDocument(f *testing.F) {
	f.Add(nasty)
	f.Add("\u2029\ufffe\U0010ffff<>&\"\\")
	f.Fuzz(func(t *testing.T, text string) {
		service := newFake()
		service.jobs[0].Error = text
		got := run(t, service, "jobs", "list", "--limit", "1", "-o", "json")
		require.Zero(t, got.code)
		requirePrintable(t, got.out, []string{text})
		var page management.JobPage
		require.NoError(t, json.Unmarshal([]byte(got.out), &page))
		assert.Equal(t, string([]rune(text)), page.Jobs[0].Error, "but for bytes that are no UTF-8")
	})
}
