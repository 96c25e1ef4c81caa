package sqlite_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// A thousand jobs were added in one transaction, whatever their size: a gigabyte kept all other writers waiting, and
// the write-ahead log grew by as much.
func TestAThousandLargeJobsWereAddedInOneTransaction(t *testing.T) {
	const many, size = 40, 1 << 20
	d := open(t, sqlite.Options{Path: newPath(t)})
	records := make([]*driver.Record, many)
	for i := range records {
		records[i] = newRecord(t, fmt.Sprint(i))
		records[i].Job = registry.NewBody(bytes.Repeat([]byte{'x'}, size), true)
	}
	transactions := sqlite.CountTransactions(d)
	errs, err := d.Insert(t.Context(), records)
	require.NoError(t, err)
	assert.Equal(t, make([]error, many), errs)
	assert.GreaterOrEqual(t, transactions.Load(), int64(many*size>>23), "transactions of at most 8 MiB")
	assert.Len(t, list(t, d), many)
}
