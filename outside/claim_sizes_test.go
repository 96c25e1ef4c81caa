package outside_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// countingClaims is a store that counts the jobs that it gives.
type countingClaims struct {
	driver.Driver
	given int
}

func (s *countingClaims) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	claimed, err := s.Driver.Claim(ctx, req)
	s.given += len(claimed.Records)
	return claimed, err
}

// A lease of 1,000 jobs read as many payloads into memory, of up to a gigabyte, and handed back all that did not
// fit into an answer.
func TestALeaseOfManyLargeJobsReadThemAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &countingClaims{Driver: stores["memory"](t)()}
		f := newFixture(t, t.Context(), func() driver.Driver { return store }, noOptions)
		payload := `"` + strings.Repeat("x", job.MaxPayloadBytes-2) + `"`
		for i := range 36 {
			f.put(string(rune('A'+i)), payload)
		}
		assert.Len(t, f.lease(outside.MaxBatch), 32)
		assert.Equal(t, 32, store.given)
		f.close()
	})
}

func TestALeaseOfManySmallJobsGetsThemAll(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		const number = 250
		for i := range number {
			f.put(string(rune('A'+i)), `1`)
		}
		assert.Len(f, f.lease(outside.MaxBatch), number)
	})
}
