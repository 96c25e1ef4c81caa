package crashtest_test

import (
	"context"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/queue/driver"
)

// fault is a defect of a driver that the crash test must find.
type fault string

const (
	dropCompletion fault = "drop completions"
	ignoreScopes   fault = "ignore scopes"
	loseInsert     fault = "lose inserts"
)

// faultyDriver has a silent defect that affects some of the jobs.
type faultyDriver struct {
	driver.Driver
	fault fault
}

// isChosen picks a tenth of the jobs.
func isChosen(r *driver.Record) bool {
	return crc32.ChecksumIEEE([]byte(r.JobID()))%10 == 0
}

// Insert implements driver.Driver.
func (d *faultyDriver) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	var inserted []*driver.Record
	var from []int // their indexes in records
	for i, r := range records {
		if d.fault == loseInsert && isChosen(r) {
			continue
		}
		if d.fault == ignoreScopes {
			without := *r
			without.Scopes, without.EnqueueScopes, without.RequiredScopes = nil, nil, nil
			r = &without
		}
		inserted = append(inserted, r)
		from = append(from, i)
	}
	errs := make([]error, len(records))
	results, err := d.Driver.Insert(ctx, inserted)
	for i, result := range results {
		errs[from[i]] = result
	}
	return errs, err
}

// Complete implements driver.Driver.
func (d *faultyDriver) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	var written []driver.Completion
	var from []int
	for i, c := range completions {
		if d.fault == dropCompletion && c.Lease.Count == 1 && isChosen(c.Record) {
			continue
		}
		written = append(written, c)
		from = append(from, i)
	}
	errs := make([]error, len(completions))
	results, err := d.Driver.Complete(ctx, written)
	for i, result := range results {
		errs[from[i]] = result
	}
	return errs, err
}

func TestPlantedFaultsAreFound(t *testing.T) {
	for planted, wanted := range map[fault]rule{
		dropCompletion: runsAgain,
		ignoreScopes:   twoHolders,
		loseInsert:     lost,
	} {
		t.Run(string(planted), func(t *testing.T) {
			t.Parallel()
			h := crash(t, setup{
				Store: newFile(t),
				Plan:  planOptions{Seed: *seed, Load: 2 * time.Second, Scopes: 2, LongWork: time.Second * 2 / 3},
				Lease: time.Second / 2,
				Fault: planted,
			})
			found := map[rule]int{}
			for _, v := range check(h) {
				found[v.rule]++
			}
			t.Logf("found: %v", found)
			assert.NotZero(t, found[wanted], "%q was not found", wanted)
		})
	}
}
