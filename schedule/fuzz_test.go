package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/schedule"
)

// FuzzCron parses any text as an expression. Accepted expressions must have increasing
// ticks, whatever the changes of the clocks.
func FuzzCron(f *testing.F) {
	for _, expression := range []string{
		"", "* * * * *", "*/5 0-6,22-2 1,15 jan-mar MON-FRI", "0 0 29 2 *", "0 0 L * FRI#5", "0 0 L-30 * *", "0 0 1W,LW 2 7",
		"@daily", "@every 1h", "TZ=UTC * * * * *", "CRON_TZ=", "59 23 31 12 6", "0 0 30 2 *", ", , , , ,", "H H * * *", "60 24 32 13 8", "* * * * 5-1/2",
	} {
		f.Add(expression, "America/Sao_Paulo", int64(1_540_000_000))
	}
	f.Add("0 0 * * *", "Pacific/Apia", int64(1_325_000_000))
	f.Add("0 0 * * *", "../etc/passwd", int64(0))
	f.Fuzz(func(t *testing.T, expression, zone string, seconds int64) {
		s, err := schedule.Cron(expression, zone)
		if err != nil {
			var invalid *schedule.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Contains(t, []any{expression, zone}, invalid.Value)
			return
		}
		const century = 100 * 365 * 24 * 60 * 60
		at := time.Unix(seconds%(2*century), 0)
		for range 20 {
			next := s.Next(at)
			require.True(t, next.After(at), "%q in %q after %s: %s", expression, zone, at, next)
			require.Zero(t, next.Nanosecond())
			// Just before a tick, Next must return that tick.
			require.True(t, s.Next(next.Add(-1)).Equal(next), "%q in %q before %s", expression, zone, next)
			at = next
		}
	})
}

func TestInvalidSchedulesAreRefused(t *testing.T) {
	cron := func(expression, zone string) func() (schedule.Schedule, error) {
		return func() (schedule.Schedule, error) { return schedule.Cron(expression, zone) }
	}
	every := func(d time.Duration) func() (schedule.Schedule, error) {
		return func() (schedule.Schedule, error) { return schedule.Every(d, time.Time{}) }
	}
	for name, test := range map[string]struct {
		make  func() (schedule.Schedule, error)
		value any
		text  string
	}{
		"no expression":       {cron("", "UTC"), "", `cron expression must be five valid fields`},
		"too few fields":      {cron("* * * *", "UTC"), "* * * *", `(is "* * * *"): expected exactly 5 fields, found 4`},
		"a field of seconds":  {cron("0 * * * * *", "UTC"), "0 * * * * *", "found 6"},
		"out of range":        {cron("61 * * * *", "UTC"), "61 * * * *", "must have a valid minute, from 0 to 59 (is"},
		"no such day":         {cron("0 0 30 2 *", "UTC"), "0 0 30 2 *", "must match a day that exists"},
		"an empty item":       {cron("1,,2 * * * *", "UTC"), "1,,2 * * * *", "must not have an empty item"},
		"a zone within":       {cron("TZ=UTC * * * * *", ""), "TZ=UTC * * * * *", "must not be part of the expression"},
		"an interval":         {cron("@every 1h", ""), "@every 1h", "use Every"},
		"a step over the end": {cron("* * * * fri-mon/2", ""), "* * * * fri-mon/2", "must not have a step"},
		"no such zone":        {cron("* * * * *", "Mars/Olympus"), "Mars/Olympus", `time zone must be a name of the IANA time zone database`},
		"the local zone":      {cron("* * * * *", "Local"), "Local", "time zone"},
		"a negative interval": {every(-time.Hour), -time.Hour, "interval must be at least 1s, in whole milliseconds (is -1h0m0s)"},
		"a short interval":    {every(time.Second - 1), time.Second - 1, "interval"},
		"half a millisecond":  {every(time.Second + time.Microsecond), time.Second + time.Microsecond, "interval"},
		"the zero time":       {func() (schedule.Schedule, error) { return schedule.At(time.Time{}) }, time.Time{}, "time must not be the zero time"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := test.make()
			require.ErrorContains(t, err, test.text)
			require.Nil(t, s)
			var invalid *schedule.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, test.value, invalid.Value)
		})
	}
	_, err := schedule.At()
	require.ErrorContains(t, err, "times must be at least one")
}
