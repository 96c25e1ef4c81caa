package crashtest_test

import (
	"context"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// failingDriver is a driver whose calls that claim, renew, end and retry jobs fail at
// random, before or after they have an effect.
type failingDriver struct {
	driver.Driver
	journal *journal
	oneIn   int

	mu     sync.Mutex
	random *rand.Rand
}

// newFailing makes one in oneIn calls fail. The choice depends on the name of the
// process.
func newFailing(d driver.Driver, j *journal, oneIn int, process string) driver.Driver {
	random := rand.New(rand.NewPCG(*seed, uint64(crc32.ChecksumIEEE([]byte(process)))))
	return asDeployed(&failingDriver{Driver: d, journal: j, oneIn: oneIn, random: random}, d)
}

var errInjected = errors.New("the test makes this call fail")

// chance reports whether a call fails before or after its effect.
func (d *failingDriver) chance() (before, after bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.random.IntN(d.oneIn) > 0 {
		return false, false
	}
	before = d.random.IntN(2) == 0
	return before, !before
}

func failing[T any](d *failingDriver, do func() (T, error)) (T, error) {
	var nothing T
	before, after := d.chance()
	if before || after {
		d.journal.write(event{Kind: callFailed, At: time.Now()})
	}
	if before {
		return nothing, errInjected
	}
	answer, err := do()
	if after && err == nil {
		return nothing, errInjected
	}
	return answer, err
}

// Claim implements driver.Driver.
func (d *failingDriver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	return failing(d, func() (driver.Claimed, error) { return d.Driver.Claim(ctx, req) })
}

// Extend implements driver.Driver.
func (d *failingDriver) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) ([]driver.Lease, error) {
	return failing(d, func() ([]driver.Lease, error) { return d.Driver.Extend(ctx, leases, leaseTime) })
}

// Complete implements driver.Driver.
func (d *failingDriver) Complete(ctx context.Context, ends []driver.Completion) ([]error, error) {
	return failing(d, func() ([]error, error) { return d.Driver.Complete(ctx, ends) })
}

// Release implements driver.Driver.
func (d *failingDriver) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	return failing(d, func() ([]error, error) { return d.Driver.Release(ctx, handBacks) })
}

// Retry implements driver.Driver.
func (d *failingDriver) Retry(ctx context.Context, ended, next *driver.Record) error {
	_, err := failing(d, func() (struct{}, error) { return struct{}{}, d.Driver.Retry(ctx, ended, next) })
	return err
}

// EndRetry implements driver.Driver.
func (d *failingDriver) EndRetry(ctx context.Context, ended *driver.Record) error {
	_, err := failing(d, func() (struct{}, error) { return struct{}{}, d.Driver.EndRetry(ctx, ended) })
	return err
}
