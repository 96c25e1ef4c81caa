package mongodb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/driver"
)

var _ driver.Examiner = (*Driver)(nil)

// Examine implements driver.Examiner. It lists the indexes and reads the clock of the server.
func (d *Driver) Examine(ctx context.Context) (driver.Condition, error) {
	condition, err := d.examine(ctx)
	if err != nil {
		return driver.Condition{}, fmt.Errorf("examining collection %q: %w", d.jobs.Name(), err)
	}
	return condition, nil
}

func (d *Driver) examine(ctx context.Context) (condition driver.Condition, err error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return condition, err
	}
	defer leave()
	ctx = plain(ctx)
	missing, _, err := d.missingIndexes(ctx)
	if err != nil {
		return condition, err
	}
	for _, i := range missing {
		if i.use == legacy || i.use == reporting && d.opts.SkipReportingIndexes {
			continue
		}
		defect, failure := d.missingIndex(&i)
		if failure != nil {
			return condition, failure
		}
		condition.Defects = append(condition.Defects, defect)
	}
	condition.Bounded, err = d.hasExpiringIndex(ctx)
	if err != nil {
		return condition, err
	}
	asked := time.Now()
	now, err := d.serverTime(ctx)
	if err != nil {
		return condition, err
	}
	// The server's time has milliseconds.
	condition.ClockAhead = driver.ClockAhead(now, asked.Truncate(time.Millisecond), time.Now())
	condition.Expired, err = d.expired(ctx, now)
	return condition, err
}

// expired returns the expired leases among the first that have ended.
func (d *Driver) expired(ctx context.Context, now time.Time) (leases []driver.ExpiredLease, err error) {
	some, bodiless := bson.D{{Key: "$limit", Value: recoverBatch}}, bson.D{{Key: "$project", Value: withoutJob}}
	pipeline := bson.A{match(d.isRunning(field("lease_until", field("$lt", now)))), some, bodiless, d.union(match(d.legacyStale(now)), some, bodiless)}
	err = d.pipe(ctx, pipeline, func(raw bson.Raw) {
		doc := decode(raw)
		ends := doc.leaseEnds(d.opts.LockTimeout)
		if now.Sub(ends) > driver.ExpiredGrace(ends.Sub(doc.Status.ModificationTime)) {
			leases = append(leases, driver.ExpiredLease{Queue: doc.Group, JobID: doc.Record.JobID(), Owner: doc.Status.Owner, Ended: ends})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading expired leases: %w", err)
	}
	slices.SortFunc(leases, func(a, b driver.ExpiredLease) int { return a.Ended.Compare(b.Ended) })
	return leases[:min(len(leases), driver.MaxExpired)], nil
}

func (d *Driver) missingIndex(i *index) (driver.Defect, error) {
	defect := driver.Defect{
		Kind:   driver.MissingIndex,
		Minor:  i.use == reporting,
		Name:   i.label(),
		Detail: fmt.Sprintf("The collection %s has no index with the keys %s.", d.jobs.Name(), strings.TrimSuffix(i.keyText(), ",")),
		Remedy: "Build the index, or start a service without SkipIndexes, which builds all that are missing.",
	}
	if i.use == reporting {
		defect.Remedy += " Only operators and their tools use this one: if it was left out on purpose, set SkipReportingIndexes."
	}
	command := bson.D{{Key: "createIndexes", Value: d.jobs.Name()}, {Key: "indexes", Value: bson.A{i.spec()}}}
	text, err := bson.MarshalExtJSON(command, false, false)
	if err != nil {
		return driver.Defect{}, fmt.Errorf("describing the index %q: %w", i.label(), err)
	}
	defect.Command = fmt.Sprintf("db.runCommand(%s)", text)
	return defect, nil
}

// hasExpiringIndex reports whether the server removes documents by their age, as the legacy
// library can make it do.
func (d *Driver) hasExpiringIndex(ctx context.Context) (bool, error) {
	cursor, err := d.jobs.Indexes().List(ctx)
	if err != nil {
		return false, fmt.Errorf("listing the indexes: %w", err)
	}
	var all []struct {
		ExpireAfter *float64 `bson:"expireAfterSeconds"`
	}
	if err := cursor.All(ctx, &all); err != nil {
		return false, fmt.Errorf("listing the indexes: %w", err)
	}
	for _, one := range all {
		if one.ExpireAfter != nil {
			return true, nil
		}
	}
	return false, nil
}
