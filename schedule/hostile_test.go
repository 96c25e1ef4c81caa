package schedule_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/schedule"
)

// An expression may come from a user. It must not take much memory or time, whether it is
// accepted or not, and the text of its error must be bounded.
func TestAttackACronExpressionTakesMemory(t *testing.T) {
	const many = 1_000_000
	for name, expression := range map[string]string{
		"a range backwards from a negative number": "1--100000000 * * * *",
		"a range without end":                      "1-100000000 * * * *",
		"a range of large numbers":                 "0-18446744073709551615 * * * *",
		"a step without end":                       "*/100000000 * * * *",
		"a step of nothing":                        "*/0 * * * *",
		"a million terms":                          strings.Repeat("1,", many) + "1 * * * *",
		"a million ranges":                         strings.Repeat("0-59/1,", many) + "1 * * * *",
		"a million days":                           "0 0 " + strings.Repeat("L-1,", many) + "1W * *",
		"a million weekdays":                       "0 0 * * " + strings.Repeat("FRI#1,", many) + "MON#2",
		"a million fields":                         strings.Repeat("* ", many),
		"a million spaces":                         "*" + strings.Repeat(" ", many) + "* * * *",
		"a long name":                              "0 0 * " + strings.Repeat("jan", many) + " *",
		"a long descriptor":                        "@" + strings.Repeat("daily", many),
		"a long time zone":                         "TZ=" + strings.Repeat("A", many) + " * * * * *",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := schedule.Cron(expression, "UTC")
			runtime.ReadMemStats(&after)
			require.Error(t, err)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
			fastest := time.Hour
			for range 3 { // a busy machine slows down some
				begin := time.Now()
				_, _ = schedule.Cron(expression, "UTC") // the same error
				fastest = min(fastest, time.Since(begin))
			}
			assert.Less(t, fastest, time.Second)
			assert.Less(t, len(err.Error()), 1000)
		})
	}
	_, err := schedule.Cron("* * * * *", strings.Repeat("A", many))
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 1000)
}

func TestALongReasonableExpressionIsAccepted(t *testing.T) {
	var minutes []string
	for m := range 60 {
		minutes = append(minutes, []string{"0", "1", "2", "3", "4", "5"}[m/10]+string(rune('0'+m%10)))
	}
	_, err := schedule.Cron(strings.Join(minutes, ",")+" 0-6,7,8,9,22-2 1,15,L jan,feb,mar,apr-dec mon-fri", "Europe/Berlin")
	require.NoError(t, err)
}
