package mongodb

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/grip/message"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// serverNow is the server's current time in the expressions of updates and queries.
const serverNow = "$$NOW"

// leaseBegan and leaseEnds are the fields that hold the beginning and the end of a lease.
const (
	leaseBegan = "status.mod_ts"
	leaseEnds  = "lease_until"
)

// serverTimeAfter returns the expression for the time d after the server's current time.
func serverTimeAfter(d time.Duration) bson.D {
	return field("$add", bson.A{serverNow, ceilMilliseconds(d)})
}

// leaseFor returns the stage of an update that begins a lease.
func leaseFor(leaseTime time.Duration) bson.D {
	return field("$set", bson.D{{Key: leaseBegan, Value: serverNow}, {Key: leaseEnds, Value: serverTimeAfter(leaseTime)}})
}

func ceilMilliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

// serverTime returns the server's time as of the call.
func (d *Driver) serverTime(ctx context.Context) (time.Time, error) {
	var hello struct {
		LocalTime time.Time `bson:"localTime"`
	}
	asked := time.Now()
	if err := d.hello(ctx, &hello); err != nil {
		return time.Time{}, fmt.Errorf("reading the server's time: %w", err)
	}
	now := hello.LocalTime.UTC()
	d.skew.check(ctx, d.elapsed(), driver.ClockAhead(now, asked.Truncate(time.Millisecond), time.Now()))
	return now, nil
}

const (
	// maxSkew is how much the clocks of this process and of the server may differ without a
	// warning.
	maxSkew = 2 * time.Second
	// warnEvery is how often there is a warning at most.
	warnEvery = 10 * time.Minute
)

// skew warns of clocks that differ.
type skew struct {
	mu   sync.Mutex
	next time.Duration // when the next warning may come, by the driver's clock
}

func (s *skew) check(ctx context.Context, now, ahead time.Duration) {
	s.mu.Lock()
	warns := ahead.Abs() > maxSkew && now >= s.next
	if warns {
		s.next = now + warnEvery
	}
	s.mu.Unlock()
	if warns {
		logging.Warning(ctx, message.Fields{
			"message":      "the clocks of this process and of the MongoDB server differ: wait-until and dispatch-by times and retention go by the clock of each process, and legacy locks too",
			"server_ahead": ahead.Round(time.Millisecond).String(),
		})
	}
}

func (d *Driver) hello(ctx context.Context, answer any) error {
	return d.client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(answer)
}
