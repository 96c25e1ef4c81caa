package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// content lists the fields that Save replaces, as driver.CopyContent does.
var content = []string{
	"type", "version", "job", "metadata",
	"status.err_count", "status.errors", "status.attempt_errors", "status.dropped_errors",
	"retry_info.max_attempts", "retry_info.dispatch_by", "retry_info.wait_until",
}

// Save implements driver.Driver.
func (d *Driver) Save(ctx context.Context, r *driver.Record) error {
	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	ctx = plain(ctx)
	if err = d.save(ctx, r); err != nil {
		return fmt.Errorf("saving record %q: %w", r.Name, err)
	}
	return nil
}

func (d *Driver) save(ctx context.Context, r *driver.Record) error {
	u := &update{set: bson.D{{Key: "rev", Value: d.revs.nextQuiet()}}}
	raw, err := bson.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the record: %w", err)
	}
	err = d.checkSize(ctx, r, len(raw))
	if err != nil {
		return err
	}
	for _, path := range content {
		value, absent := bson.Raw(raw).LookupErr(strings.Split(path, ".")...)
		if absent != nil {
			u.unset = append(u.unset, bson.E{Key: path, Value: ""})
			continue
		}
		u.set = append(u.set, bson.E{Key: path, Value: value})
	}
	unlocked := append(d.named(r.Group, r.Name),
		bson.E{Key: "status.owner", Value: r.Status.Owner},
		bson.E{Key: "status.mod_count", Value: r.Status.ModificationCount},
	)
	if r.Stamp != 0 {
		unlocked = append(unlocked, bson.E{Key: "order", Value: ordersOf(driver.LeaseOf(r))})
	}
	matched := false
	if !r.Status.InProgress && !r.Status.Completed {
		matched, err = d.updateOne(ctx, append(slices.Clip(unlocked), exists("line.in")...), u.withKind(r))
	}
	if err == nil && !matched {
		matched, err = d.updateOne(ctx, unlocked, u)
	}
	if err == nil && !matched {
		matched, err = d.saveLock(ctx, r, u)
	}
	switch {
	case isTooLarge(err):
		return tooLarge(&document{Record: *r}, len(raw))
	case err != nil:
		return err
	case !matched:
		return amboy.NewJobNotFoundErrorf("there is no record %q", r.Name)
	}
	return nil
}

// checkSize refuses a record that is too large to run, unless its document was no smaller before: legacy
// processes and earlier versions put such documents.
func (d *Driver) checkSize(ctx context.Context, r *driver.Record, size int) error {
	switch {
	case size <= maxNewSize:
		return nil
	case size > maxDocumentSize:
		return tooLarge(&document{Record: *r}, size)
	}
	stored, err := d.jobs.FindOne(ctx, d.named(r.Group, r.Name)).Raw()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil // the save finds out
	case err != nil:
		return fmt.Errorf("reading the size of its document: %w", err)
	case size > len(stored):
		return tooLargeToRun(&document{Record: *r}, size)
	}
	return nil
}

// withKind returns the update for a document that is in the line.
func (u *update) withKind(r *driver.Record) *update {
	inLine := *u
	inLine.set = append(slices.Clip(u.set), bson.E{Key: "line.kind", Value: driver.KindOf(r).Key()})
	return &inLine
}

// saveLock saves a record whose owner and count differ from the stored ones, or returns
// why that is refused (see driver.CheckSave). It returns false if the record does not
// exist.
func (d *Driver) saveLock(ctx context.Context, r *driver.Record, u *update) (found bool, err error) {
	for range maxRounds {
		stored, err := d.first(ctx, d.named(r.Group, r.Name), nil)
		if err != nil || stored == nil {
			return false, err
		}
		checked := stored.record()
		if stored.Order == 0 {
			checked.Stamp = r.Stamp // the legacy library drops the order when it saves a document
		}
		relocked, err := driver.CheckSave(checked, r)
		if err != nil {
			return false, err
		}
		locked := *u
		if !stored.Line.IsZero() {
			locked = *u.withKind(r)
		}
		if relocked {
			locked.set = append(slices.Clip(locked.set),
				bson.E{Key: "status.owner", Value: r.Status.Owner},
				bson.E{Key: "status.mod_count", Value: r.Status.ModificationCount},
				bson.E{Key: leaseBegan, Value: r.Status.ModificationTime},
			)
			if stored.runs() {
				locked.leaseTime = stored.leaseEnds(d.opts.LockTimeout).Sub(stored.Status.ModificationTime)
			}
		}
		matched, err := d.updateOne(ctx, append(bson.D{{Key: "_id", Value: stored.id}}, stored.guard...), &locked)
		if err != nil || matched {
			return matched, err
		}
	}
	return false, errContended
}

// SetProgress implements driver.Driver. If ctx carries a session with a transaction it stores nothing:
// a job that changes since the transaction began can't end in it. The queue stores the progress later,
// with the end of the job at the latest.
func (d *Driver) SetProgress(ctx context.Context, lease driver.Lease, progress driver.Progress) error {
	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if transactionOf(ctx) != nil {
		return nil
	}
	ctx = plain(ctx)
	filter := append(d.named(lease.Queue, lease.Name),
		bson.E{Key: "status.owner", Value: lease.Owner},
		bson.E{Key: "status.mod_count", Value: lease.Count},
		bson.E{Key: "order", Value: ordersOf(lease)},
		bson.E{Key: "status.completed", Value: false},
		bson.E{Key: "status.in_prog", Value: true},
	)
	matched, err := d.updateOne(ctx, filter, &update{set: bson.D{{Key: "progress", Value: progress}}})
	if err == nil && !matched {
		err = leaseLost(lease)
	}
	if err != nil {
		return fmt.Errorf("setting the progress of record %q: %w", lease.Name, err)
	}
	return nil
}

// updateOne makes an update that may be repeated, and reports whether a document matched.
func (d *Driver) updateOne(ctx context.Context, filter bson.D, u *update) (matched bool, err error) {
	err = attempts(ctx, func() error {
		result, failure := d.jobs.UpdateOne(ctx, filter, u.document())
		matched = failure == nil && result.MatchedCount > 0
		return failure
	}, nil)
	return matched, err
}
