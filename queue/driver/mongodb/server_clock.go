package mongodb

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/bson"
)

// serverNow is the clock of the server in the expressions of updates and queries.
const serverNow = "$$NOW"

// leaseBegan and leaseEnds are the fields by which a lease is measured.
const (
	leaseBegan = "status.mod_ts"
	leaseEnds  = "lease_until"
)

// serverTimeAfter is the expression for a time from now on the server.
func serverTimeAfter(d time.Duration) bson.D {
	return field("$add", bson.A{serverNow, ceilMilliseconds(d)})
}

// leaseFor is the stage of an update that makes a lease begin.
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

// serverTime is what the clock of the server says, or said a moment ago.
func (d *Driver) serverTime(ctx context.Context) (time.Time, error) {
	var hello struct {
		LocalTime time.Time `bson:"localTime"`
	}
	if err := d.hello(ctx, &hello); err != nil {
		return time.Time{}, fmt.Errorf("asking the server for its time: %w", err)
	}
	return hello.LocalTime.UTC(), nil
}

func (d *Driver) hello(ctx context.Context, answer any) error {
	return d.client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(answer)
}
