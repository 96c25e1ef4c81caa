package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// Each claim from more than eight queues read the rows of all queues that had work.
func TestAClaimServesItsQueuesInOrderWhateverOthersHave(t *testing.T) {
	for name, busy := range map[string]int{"few others": 11, "many others": 40} {
		t.Run(name, func(t *testing.T) {
			d := open(t, sqlite.Options{Path: newPath(t)})
			for i := range busy {
				for n := range 2 {
					r := newRecord(t, fmt.Sprint(n))
					r.Group = fmt.Sprint("q", i)
					r.Name = driver.RecordName(r.Group, r.JobID(), r.RetryInfo)
					insert(t, d, r)
				}
			}
			req := driver.ClaimRequest{Owner: "owner", Now: time.Now(), LeaseTime: time.Minute, Limit: 12}
			var want []string
			for i := busy - 1; i >= busy-10; i-- {
				want = append(want, fmt.Sprint("q", i))
				req.Queues = append(req.Queues, driver.Demand{Queue: fmt.Sprint("q", i), Limit: 2}, driver.Demand{Queue: fmt.Sprint("idle", i), Limit: 2})
			}
			want = append(want, want[:2]...)
			claimed, err := d.Claim(t.Context(), req)
			require.NoError(t, err)
			var queues []string
			for _, r := range claimed.Records {
				queues = append(queues, r.Group)
			}
			assert.Equal(t, want, queues)
		})
	}
}
