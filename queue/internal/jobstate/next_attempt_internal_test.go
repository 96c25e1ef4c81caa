package jobstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

func TestBackoffIsCountedFromTheEndOfTheAttempt(t *testing.T) {
	now := time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)
	backoff := time.Hour
	for name, test := range map[string]struct {
		end, want time.Time
	}{
		"some time ago":    {now.Add(-10 * time.Minute), now.Add(50 * time.Minute)},
		"long ago":         {now.Add(-2 * time.Hour), now.Add(-time.Hour)},
		"not known":        {time.Time{}, now.Add(time.Hour)},
		"by a clock ahead": {now.Add(time.Minute), now.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			j := job.NewShellJob("true", "")
			j.UpdateRetryInfo(amboy.JobRetryOptions{WaitUntil: &backoff})
			j.SetTimeInfo(amboy.JobTimeInfo{End: test.end})
			times, err := NextTimes(j, nil, now)
			require.NoError(t, err)
			assert.Equal(t, test.want, times.WaitUntil)
			assert.Equal(t, now, times.Created)
		})
	}
}
