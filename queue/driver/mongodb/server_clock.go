package mongodb

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/bson"
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
	if err := d.hello(ctx, &hello); err != nil {
		return time.Time{}, fmt.Errorf("reading the server's time: %w", err)
	}
	return hello.LocalTime.UTC(), nil
}

func (d *Driver) hello(ctx context.Context, answer any) error {
	return d.client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(answer)
}
