package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, queue, id string) (*driver.Record, error) {
	found, err := d.readRecords(ctx, readLatest, exactly(queue), exactly(id))
	if err == nil && len(found) == 0 {
		err = table.NotFound(id)
	}
	if err != nil {
		return nil, fmt.Errorf("getting job %q: %w", id, err)
	}
	return d.decode(ctx, found[0]), nil
}

func (d *Driver) readRecords(ctx context.Context, s statement, args ...any) (found []*stored, err error) {
	err = d.reading(ctx, func(ctx context.Context, on querier) (err error) {
		found, err = d.records(ctx, on, d.texts[s], args...)
		return err
	})
	return found, err
}

// Attempts implements driver.Driver.
func (d *Driver) Attempts(ctx context.Context, queue, id string) ([]*driver.Record, error) {
	found, err := d.readRecords(ctx, readAttempts, exactly(queue), exactly(id))
	if err != nil {
		return nil, fmt.Errorf("getting the attempts of job %q: %w", id, err)
	}
	var attempts []*driver.Record
	for _, s := range found {
		if r := d.decode(ctx, s); r.RetryInfo.Retryable {
			attempts = append(attempts, r)
		}
	}
	return attempts, nil
}

// findTime is the time after which a page ends even if it is not full.
const findTime = 40 * time.Millisecond

// Find implements driver.Driver. A statement reads at most 5,000 records. A page that is not full
// after 40 ms ends then; it may be empty, and the next page continues from there. Indexes find
// records by ID, by a prefix of the ID or a tag that few records have, by a job on which they
// depend, by held scopes, and by the states running, blocked, parked, retrying, failed and
// canceled. Other fields filter these records, or all records. A record that can't be decoded is
// returned without a job.
func (d *Driver) Find(ctx context.Context, q driver.Query, page driver.PageRequest) (driver.Page, error) {
	found, next, err := d.find(ctx, q, page)
	if err != nil {
		return driver.Page{}, fmt.Errorf("finding records: %w", err)
	}
	records := make([]*driver.Record, len(found))
	for i, s := range found {
		records[i] = d.decode(ctx, s)
	}
	return driver.Page{Records: records, Next: next}, nil
}

func (d *Driver) find(ctx context.Context, q driver.Query, page driver.PageRequest) (found []*stored, next driver.Cursor, err error) {
	err = table.CheckLimit(page.Limit)
	if err != nil {
		return nil, "", err
	}
	at, err := table.NewSpan(page.After, page.Newest)
	if err != nil {
		return nil, "", err
	}
	s, err := newSelection(q, time.Now())
	if err != nil {
		return nil, "", err
	}
	s.bodies.Body = page.Body
	if page.Brief {
		s.columns = briefColumns
	}
	err = d.reading(ctx, func(ctx context.Context, on querier) error {
		for begun := time.Now(); ; {
			some, cursor, failure := s.page(ctx, d, on, at, page.Limit-len(found))
			if failure != nil {
				return failure
			}
			found, next = append(found, some...), cursor
			if next == "" || len(found) == page.Limit || time.Since(begun) > findTime {
				return nil
			}
		}
	})
	return found, next, err
}

// Count implements driver.Driver.
func (d *Driver) Count(ctx context.Context, q driver.Query, limit int) (int, error) {
	n, err := d.count(ctx, q, limit)
	if err != nil {
		return n, fmt.Errorf("counting records: %w", err)
	}
	return n, nil
}

func (d *Driver) count(ctx context.Context, q driver.Query, limit int) (n int, err error) {
	err = table.CheckLimit(limit)
	if err != nil {
		return 0, err
	}
	at, err := table.NewSpan("", false)
	if err != nil {
		return 0, err
	}
	s, err := newSelection(q, time.Now())
	if err != nil {
		return 0, err
	}
	err = d.reading(ctx, func(ctx context.Context, on querier) error {
		for more := true; more && n < limit; {
			some, left, failure := s.count(ctx, d, on, at, limit-n)
			if failure != nil {
				return failure
			}
			n, more = n+some, left
		}
		return nil
	})
	return n, err
}

// CancelRequests implements driver.Driver.
func (d *Driver) CancelRequests(ctx context.Context, owner string) ([]driver.Lease, error) {
	var jobs []*job
	err := d.readPlanned(ctx, readCanceled, func(r *row) error {
		j := &job{queue: r.key(), Job: table.Job{Name: r.text(), ID: r.text(), Owner: r.text(), Count: r.int(), Stamp: r.integer()}}
		jobs = append(jobs, j)
		return nil
	}, storable(owner))
	if err == nil {
		err = d.reading(ctx, func(ctx context.Context, on querier) error { return d.resolve(ctx, on, jobs) })
	}
	if err != nil {
		return nil, fmt.Errorf("reading which records of owner %q are to be canceled: %w", owner, err)
	}
	var leases []driver.Lease
	for _, j := range jobs {
		leases = append(leases, j.LeaseIn(j.queueName))
	}
	return leases, nil
}

// Stats implements driver.Driver. Its cost does not depend on the number of records.
func (d *Driver) Stats(ctx context.Context, queue string) (amboy.QueueStats, error) {
	var info driver.QueueInfo
	err := d.read(ctx, readStats, func(r *row) error {
		table.Place(r.integer()).Count(&info, r.int())
		return nil
	}, exactly(queue))
	if err != nil {
		return amboy.QueueStats{}, fmt.Errorf("counting the records of queue %q: %w", queue, err)
	}
	return info.Stats, nil
}

// Queues implements driver.Driver. Its cost does not depend on the number of records.
func (d *Driver) Queues(ctx context.Context, req driver.QueueRequest) (all []driver.QueueInfo, err error) {
	err = req.Validate()
	if err != nil {
		return nil, err
	}
	if req == (driver.QueueRequest{}) {
		all, err = d.readInfos(ctx, readQueues)
	} else {
		// PostgreSQL can't store the zero byte at the end of a next name.
		from, isNext := strings.CutSuffix(req.From, driver.NextName(""))
		limit := int64(req.Limit)
		if limit == 0 {
			limit = math.MaxInt64
		}
		all, err = d.readInfos(ctx, readQueuePage, storable(from), limit, !isNext)
	}
	if err != nil {
		return nil, fmt.Errorf("describing the queues: %w", err)
	}
	return all, nil
}

// readInfos returns the queues that a statement describes with a row for each place of records.
func (d *Driver) readInfos(ctx context.Context, s statement, args ...any) (all []driver.QueueInfo, err error) {
	err = d.read(ctx, s, func(r *row) error {
		info := driver.QueueInfo{Name: r.text(), Control: r.control()}
		if len(all) == 0 || all[len(all)-1].Name != info.Name {
			all = append(all, info)
		}
		table.Place(r.integer()).Count(&all[len(all)-1], r.int())
		return nil
	}, args...)
	return all, err
}

// SumQueues implements driver.Driver. Its cost does not depend on the number of records.
func (d *Driver) SumQueues(ctx context.Context, busiest int) (driver.QueueTotals, error) {
	var sum driver.QueueInfo
	var totals driver.QueueTotals
	err := d.read(ctx, countQueues, func(r *row) error {
		totals.Queues = r.int()
		return nil
	})
	if err == nil {
		err = d.read(ctx, sumQueues, func(r *row) error {
			table.Place(r.integer()).Count(&sum, r.int())
			return nil
		})
	}
	if err == nil && busiest > 0 {
		totals.Busiest, err = d.readInfos(ctx, readBusiest, int64(busiest))
	}
	if err != nil {
		return driver.QueueTotals{}, fmt.Errorf("adding up the queues: %w", err)
	}
	totals.Stats, totals.Scheduled, totals.Parked = sum.Stats, sum.Scheduled, sum.Parked
	return totals, nil
}

// CountTypes implements driver.Driver. It reads the records that have not ended, along indexes
// that contain few others.
func (d *Driver) CountTypes(ctx context.Context) ([]driver.TypeCount, error) {
	counts := schedule.TypeCounts{}
	err := d.read(ctx, countTypes, func(r *row) error {
		queue, jobType, at := r.text(), r.text(), table.Place(r.integer())
		counts.Add(queue, jobType, at.Schedule(), r.int())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("counting records by type: %w", err)
	}
	return counts.Sorted(), nil
}

// OldestReady implements driver.Driver. It compares the first records of each priority and kind
// of a queue.
func (d *Driver) OldestReady(ctx context.Context, queues []string, now time.Time) (map[string]time.Time, error) {
	oldest := map[string]time.Time{}
	err := d.read(ctx, readOldestReady, func(r *row) error {
		name := r.text()
		oldest[name] = table.TimeOf(r.time())
		return nil
	}, storables(queues), now.UnixNano(), int64(driver.MaxOverdue))
	if err != nil {
		return nil, fmt.Errorf("finding the oldest ready records of %d queues: %w", len(queues), err)
	}
	return oldest, nil
}

// workAtOnce is the maximum number of due records that Work reads, and also of expired ones.
const workAtOnce = 10_000

// Work implements driver.Driver. If more than 10,000 records are due, or have expired, the queues
// of the rest are left for another call, which Next requests at once.
func (d *Driver) Work(ctx context.Context, now time.Time) (driver.Work, error) {
	work, err := d.work(ctx, now)
	if err != nil {
		return driver.Work{}, fmt.Errorf("querying which queues have work: %w", err)
	}
	return work, nil
}

func (d *Driver) work(ctx context.Context, now time.Time) (work driver.Work, err error) {
	timed, read := [2][]int32{}, [2]int{} // due and expired
	at := now.UnixNano()
	due, expired := d.lookForDue(at), d.lookForExpired(at)
	defer due.close()
	defer expired.close()
	var t times
	err = d.retrying(ctx, func(ctx context.Context) (bool, error) {
		timed, read = [2][]int32{}, [2]int{}
		return d.pipeline(ctx, func(b *batch) {
			b.plan()
			b.query(readTimed, func(r *row) error {
				kind, queue := r.int(), r.key()
				timed[kind] = append(timed[kind], queue)
				read[kind] += r.int()
				return nil
			}, at, d.workAtOnce, due.from, expired.from)
			b.query(nextTimes, func(r *row) error {
				t = timesOf(r)
				return nil
			}, timesArgs(at, due, expired)...)
		})
	})
	if err == nil {
		t.learn(at, due, expired)
		work.Next = t.next()
		if read[0] >= d.workAtOnce {
			// Until claims have moved these records, which they do even if none of them may run, they hide others.
			// A claim for expired records needs no free worker.
			timed[1] = append(timed[1], timed[0]...)
		}
		err = d.read(ctx, readWork, func(r *row) error {
			work.Queues = append(work.Queues, driver.QueueWork{Queue: r.text(), Ready: r.bool(), Expired: r.bool(), Retrying: r.bool()})
			return nil
		}, timed[0], timed[1])
	}
	if max(read[0], read[1]) >= d.workAtOnce {
		work.Next = now
	}
	return work, err
}

// Unfinished implements driver.Driver. Its cost does not depend on the number of records.
func (d *Driver) Unfinished(ctx context.Context) (names []string, err error) {
	err = d.read(ctx, readUnfinished, func(r *row) error {
		names = append(names, r.text())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("querying queues with unfinished records: %w", err)
	}
	return names, nil
}
