package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/schedule"
)

func TestCronAcrossClockChanges(t *testing.T) {
	forward := time.Date(2030, 3, 31, 0, 30, 0, 0, time.UTC) // 1:30, half an hour before
	back := time.Date(2030, 10, 26, 23, 30, 0, 0, time.UTC)  // 1:30, an hour and a half before
	for _, test := range []struct {
		expression string
		after      time.Time
		want       []string
	}{
		{"30 2 * * *", forward, []string{"31 03:00 CEST", "1 02:30 CEST"}},
		{"30 2 * * *", back, []string{"27 02:30 CEST", "28 02:30 CET"}},
		{"0,30 2,3 * * *", forward, []string{"31 03:00 CEST", "31 03:30 CEST", "1 02:00 CEST"}},
		{"0,30 2,3 * * *", back, []string{"27 02:00 CEST", "27 02:30 CEST", "27 03:00 CET", "27 03:30 CET"}},
		{"*/30 * * * *", forward, []string{"31 03:00 CEST", "31 03:30 CEST"}},
		{"*/30 * * * *", back, []string{"27 02:00 CEST", "27 02:30 CEST", "27 02:00 CET", "27 02:30 CET", "27 03:00 CET"}},
		{"15 0-23 * * *", back, []string{"27 02:15 CEST", "27 02:15 CET", "27 03:15 CET"}},
		{"@daily", forward, []string{"1 00:00 CEST"}},
	} {
		t.Run(fmt.Sprint(test.expression, " ", test.after.Month()), func(t *testing.T) {
			s, err := schedule.Cron(test.expression, "Europe/Berlin")
			require.NoError(t, err)
			var got []string
			for _, tick := range schedule.Upcoming(s, test.after, len(test.want)) {
				got = append(got, tick.Format("2 15:04 MST"))
			}
			assert.Equal(t, test.want, got)
		})
	}
}

// Some days are rare. An expression for them must not be refused as impossible.
func TestRareDays(t *testing.T) {
	for expression, want := range map[string][]string{
		"0 0 29 2 *":       {"2096-02-29", "2104-02-29"},
		"0 0 * 2 FRI#5":    {"2104-02-29", "2132-02-29"},
		"0 0 31 4,6,12 *":  {"2093-12-31", "2094-12-31"},
		"0 12 L 2 *":       {"2093-02-28", "2094-02-28"},
		"0 12 LW 2 *":      {"2093-02-27", "2094-02-26"},
		"0 12 1-7 1 MON#1": {"2094-01-01", "2094-01-02"},
	} {
		t.Run(expression, func(t *testing.T) {
			s, err := schedule.Cron(expression, "")
			require.NoError(t, err)
			var got []string
			for _, tick := range schedule.Upcoming(s, time.Date(2093, 1, 31, 0, 0, 0, 0, time.UTC), 2) {
				got = append(got, tick.Format(time.DateOnly))
			}
			assert.Equal(t, want, got)
		})
	}
}

func TestUpcomingEndsWithTheLastTick(t *testing.T) {
	s, err := schedule.At(noon)
	require.NoError(t, err)
	assert.Equal(t, []time.Time{noon}, schedule.Upcoming(s, noon.Add(-1), 3))
	assert.Empty(t, schedule.Upcoming(s, noon, 3))
}
