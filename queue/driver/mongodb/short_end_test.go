package mongodb_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
)

func TestAnEndOfMoreThan16MBRanForEver(t *testing.T) {
	for name, retry := range map[string]bool{"an attempt": false, "a retry": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newStoreOf(t, mongotest.Options{InMemory: true}).open()
				insert(t, d, newRecord(t, "q", "large", func(j *job.ShellJob) {
					j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
				}), newRecord(t, "q", "small"))
				running := claim(t, d, request("owner", 2, "q"))
				var completions []driver.Completion
				var large driver.Record
				for _, r := range running {
					ended := *r
					ended.Status.Completed, ended.Status.InProgress = true, false
					if r.JobID() == "large" && retry {
						ended.RetryInfo.NeedsRetry = true
						large = ended
					} else if r.JobID() == "large" {
						ended.Status.Errors = []string{strings.Repeat("x", 17<<20)}
						ended.Status.ErrorCount = 1
					}
					completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: &ended})
				}
				errs, err := d.Complete(t.Context(), completions)
				require.NoError(t, err)
				for i, r := range running {
					if r.JobID() == "small" || retry {
						require.NoError(t, errs[i])
					} else {
						require.ErrorIs(t, errs[i], driver.ErrTooLarge)
					}
				}
				if retry {
					large.Status.Errors = []string{strings.Repeat("x", 17<<20)}
					large.RetryInfo.NeedsRetry = false
					require.ErrorIs(t, d.EndRetry(t.Context(), &large), driver.ErrTooLarge)
				}

				stored, err := d.Get(t.Context(), "q", "large")
				require.NoError(t, err)
				assert.True(t, stored.Status.Completed)
				assert.False(t, stored.RetryInfo.ShouldRetry())
				require.Len(t, stored.Status.Errors, 1)
				assert.Contains(t, stored.Status.Errors[0], "must be at most 16777216 bytes")
				assert.Less(t, len(stored.Status.Errors[0]), 1000)
				assert.False(t, stored.Job.IsZero(), "the body stays")
				assert.Empty(t, claim(t, d, request("owner", 2, "q")))
			})
		})
	}
}
