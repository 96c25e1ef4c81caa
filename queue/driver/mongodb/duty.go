package mongodb

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/queue/driver"
)

// dutyKey is the _id of the control document of a duty.
func dutyKey(name string) string { return "duty/" + name }

// TakeDuty implements driver.Driver.
func (d *Driver) TakeDuty(ctx context.Context, duty driver.Duty, now time.Time) (bool, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	ctx = plain(ctx)
	until := ceilMillisecond(now.Add(duty.For))
	isFree := either(field("owner", duty.Owner), field("until", field("$lte", now)), field("until", field("$gt", until)))
	filter := all(field("_id", dutyKey(duty.Name)), isFree)
	set := field("$set", bson.D{{Key: "owner", Value: duty.Owner}, {Key: "until", Value: until}})
	err = attempts(ctx, func() error {
		_, failure := d.control.UpdateOne(ctx, filter, set, options.Update().SetUpsert(true))
		return failure
	}, nil)
	switch {
	case err == nil:
		return true, nil
	case mongo.IsDuplicateKeyError(err): // another owner has it
		return false, nil
	default:
		return false, fmt.Errorf("taking duty %q: %w", duty.Name, err)
	}
}
