package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// full returns a driver with two full queues.
func full(t *testing.T) driver.Driver {
	t.Helper()
	d := newDriver(t, memory.Options{Capacity: 2, KeepFinished: 10})
	insert(t, d, record("a", unique("key", amboy.UniqueUntilEnded)), record("b"), recordOf("other", "a"), recordOf("other", "b"))
	return d
}

// inserts inserts records, each in a goroutine that starts when the previous one waits, and
// records the order in which they were inserted.
type inserts struct {
	mu    sync.Mutex
	order []string
}

func (i *inserts) start(t *testing.T, d driver.Driver, records ...*driver.Record) {
	for _, r := range records {
		go func() {
			assert.NoError(t, insertOne(t.Context(), d, r))
			i.mu.Lock()
			defer i.mu.Unlock()
			i.order = append(i.order, r.JobID())
		}()
		synctest.Wait()
	}
}

func (i *inserts) done() []string {
	synctest.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.order
}

func TestInsertWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := full(t)
		var waiting inserts
		waiting.start(t, d, record("1"), record("2"), record("3"))
		assert.Empty(t, waiting.done())
		first := claim(t, d, 1)[0]
		assert.Equal(t, []string{"1"}, waiting.done())

		require.NoError(t, complete(t.Context(), d, first, ended(first))) // it has started already, so its end makes no room
		assert.Equal(t, []string{"1"}, waiting.done())
		claim(t, d, 2)
		assert.Equal(t, []string{"1", "2", "3"}, waiting.done())
	})
}

func TestChangesThatMakeRoom(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, d driver.Driver) error{
		"claiming": func(t *testing.T, d driver.Driver) error {
			claim(t, d, 1)
			return nil
		},
		"completing what never ran": func(t *testing.T, d driver.Driver) error {
			r := get(t, d, "b")
			return complete(t.Context(), d, r, ended(r))
		},
		"completing what never ran, for a retry": func(t *testing.T, d driver.Driver) error {
			r := get(t, d, "b")
			done := ended(r)
			done.RetryInfo = amboy.JobRetryInfo{Retryable: true, NeedsRetry: true}
			return complete(t.Context(), d, r, done)
		},
		"canceling": func(t *testing.T, d driver.Driver) error {
			_, err := d.Act(t.Context(), driver.ActRequest{
				Query:  driver.Query{Queues: []string{queueName}, ID: "b"},
				Action: driver.Action{Kind: driver.Cancel},
				Limit:  1,
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := full(t)
				ctx, cancel := context.WithCancel(t.Context())
				elsewhere := make(chan error)
				go func() { elsewhere <- insertOne(ctx, d, recordOf("other", "new")) }()
				var waiting inserts
				waiting.start(t, d, record("new"))
				assert.Empty(t, waiting.done())
				require.NoError(t, change(t, d))
				assert.Equal(t, []string{"new"}, waiting.done())
				cancel()
				require.ErrorIs(t, <-elsewhere, context.Canceled, "there is no room in the other queue")
			})
		})
	}
}

func TestARefusedInsertDoesNotWait(t *testing.T) {
	d := full(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	attempt := amboy.JobRetryInfo{Retryable: true, BaseJobID: "a"}
	for name, r := range map[string]*driver.Record{
		"ID":         record("attempt-0.a", func(r *driver.Record) { r.RetryInfo = attempt }),
		"name":       record("new", func(r *driver.Record) { r.Name = "queue.a" }),
		"unique key": record("new", unique("key", amboy.UniqueUntilEnded)),
	} {
		err := insertOne(ctx, d, r)
		assert.True(t, amboy.IsDuplicateJobError(err), "%s: %v", name, err)
	}
}

func TestDrainingRefusesWaitingInserts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := full(t)
		refusals := make(chan error)
		for i := range 2 {
			go func() { refusals <- insertOne(t.Context(), d, record(fmt.Sprint(i))) }()
		}
		synctest.Wait()
		drain := true
		_, err := d.Control(t.Context(), queueName, driver.ControlChange{Draining: &drain})
		require.NoError(t, err)
		require.ErrorIs(t, <-refusals, amboy.ErrQueueDraining)
		require.ErrorIs(t, <-refusals, amboy.ErrQueueDraining)

		drain = false
		_, err = d.Control(t.Context(), queueName, driver.ControlChange{Draining: &drain})
		require.NoError(t, err)
		claim(t, d, 2)
		insert(t, d, record("c"), record("d"))
	})
}

func TestInsertStopsWaitingWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, memory.Options{Capacity: 1, KeepFinished: 10})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs, err := d.Insert(ctx, []*driver.Record{record("a"), record("b"), record("c")})
		require.NoError(t, err)
		require.Len(t, errs, 3)
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], context.DeadlineExceeded)
		require.ErrorIs(t, errs[2], context.DeadlineExceeded)
	})
}

// Room comes at the moment at which the first waiter gives up, so that the second gets it.
func TestRoomOfACanceledInsertIsPassedOn(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver(t, memory.Options{Capacity: 1, KeepFinished: 10})
			insert(t, d, record("a"))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			first, second := make(chan error), make(chan error)
			go func() { first <- insertOne(ctx, d, record("first")) }()
			synctest.Wait()
			go func() { second <- insertOne(t.Context(), d, record("second")) }()
			synctest.Wait()
			leave()
			claim(t, d, 1)
			if <-first == nil {
				claim(t, d, 1) // the first waiter got the room before it gave up
			}
			require.NoError(t, <-second)
		})
	}
}

// The first records of the batch must be claimed while the others wait. The driver's
// notification starts the claims.
func TestBatchLargerThanTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, memory.Options{Capacity: 2, KeepFinished: 10})
		news := make(chan struct{}, 1)
		cancel := d.Subscribe(func(driver.Change) {
			select {
			case news <- struct{}{}:
			default:
			}
		})
		defer cancel()
		var records []*driver.Record
		for i := range 10 {
			records = append(records, record(fmt.Sprint(i)))
		}
		inserted := make(chan []error)
		go func() {
			errs, err := d.Insert(t.Context(), records)
			inserted <- append(errs, err)
		}()
		for stats(t, d).Completed < len(records) {
			<-news
			run(t, d, 10)
		}
		require.NoError(t, errors.Join(<-inserted...))
	})
}
