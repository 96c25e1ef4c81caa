package mongodb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/queue/driver"
)

// holds reports whether a document that has not ended has the lease. An empty lease
// stands for the absence of one.
func (doc *document) holds(l driver.Lease) bool { return !doc.Status.Completed && doc.shows(l) }

// ordersOf returns the values of the order in documents that have one of the leases, or that the legacy
// library has saved since, which drops it.
func ordersOf(leases ...driver.Lease) bson.D {
	orders := make(bson.A, 1, len(leases)+1) // a null, which stands for no order
	for _, l := range leases {
		orders = append(orders, l.Stamp)
	}
	return field("$in", orders)
}

// errorsOf returns the errors of changes to records under leases.
func errorsOf(changes []*change, leaseOf func(i int) driver.Lease) []error {
	errs := make([]error, len(changes))
	for i, c := range changes {
		errs[i] = c.err
		if errors.Is(c.err, errGone) {
			errs[i] = leaseLost(leaseOf(i))
		}
	}
	return errs
}

// Extend implements driver.Driver.
func (d *Driver) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) (lost []driver.Lease, err error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx = plain(ctx)
	lost, err = d.extend(ctx, leases, leaseTime)
	if err != nil {
		err = fmt.Errorf("extending %d leases: %w", len(leases), err)
	}
	return lost, err
}

func (d *Driver) extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) (lost []driver.Lease, err error) {
	if len(leases) == 0 {
		return nil, nil
	}
	statements, err := d.extensions(leases, leaseTime)
	if err != nil {
		return nil, err
	}
	matched, err := d.sendExtensions(ctx, statements, batchLimit)
	if isTimedOut(err) {
		return d.extendEach(ctx, leases, leaseTime)
	}
	if err == nil && matched < len(leases) {
		lost, err = d.findLost(ctx, leases)
		if err != nil {
			err = unknown(err)
		}
	}
	if err != nil {
		return nil, err
	}
	d.leases.extend(leases, leaseTime)
	return lost, nil
}

// extendEach extends leases one by one, because an open transaction is in the way of one of
// them.
func (d *Driver) extendEach(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) (lost []driver.Lease, err error) {
	errs, held := make([]error, len(leases)), make([]bool, len(leases))
	var blocked driver.BlockedLeasesError
	eachAtOnce(len(leases), func(i int) {
		statements, failure := d.extensions(leases[i:i+1], leaseTime)
		matched := 0
		if failure == nil {
			matched, failure = d.sendExtensions(ctx, statements, singleLimit)
		}
		held[i], errs[i] = matched > 0, failure
	})
	for i, l := range leases {
		switch {
		case isTimedOut(errs[i]):
			blocked.Leases = append(blocked.Leases, l)
		case errs[i] != nil:
			err = errs[i]
		case held[i]:
			d.leases.extend(leases[i:i+1], leaseTime)
		default:
			lost = append(lost, l)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case len(blocked.Leases) > 0:
		return lost, &blocked
	default:
		return lost, nil
	}
}

// sendExtensions returns the number of leases that were extended.
func (d *Driver) sendExtensions(ctx context.Context, statements []bson.Raw, limit time.Duration) (extended int, err error) {
	err = attempts(ctx, func() error {
		a, failure := d.send(ctx, updating, statements, false, limit)
		switch {
		case failure != nil:
			return failure
		case len(a.refused) > 0:
			return mongo.WriteException{WriteErrors: a.refused}
		}
		extended = a.n
		if isLagging(a.unacknowledged) {
			limit = 0 // no transaction is in the way, and the majority may lag for longer
		}
		return a.unacknowledged
	}, isLagging)
	return extended, err
}

// extensions returns the updates that extend leases: one for all leases with the same
// queue, owner and count. Their stamps are in a list, and no document has that of another.
func (d *Driver) extensions(leases []driver.Lease, leaseTime time.Duration) ([]bson.Raw, error) {
	type common struct {
		queue, owner string
		count        int
	}
	alike := map[common][]driver.Lease{}
	for _, l := range leases {
		c := common{l.Queue, l.Owner, l.Count}
		alike[c] = append(alike[c], l)
	}
	update := mongo.Pipeline{leaseFor(leaseTime)}
	statements := make([]bson.D, 0, len(alike))
	for c, leases := range alike {
		var ids bson.A
		for _, l := range leases {
			ids = append(ids, d.idsOf(l.Queue, l.Name)...)
		}
		filter := d.inQueue(c.queue,
			bson.E{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}},
			bson.E{Key: "status.completed", Value: false},
			bson.E{Key: "status.in_prog", Value: true},
			bson.E{Key: "status.owner", Value: c.owner},
			bson.E{Key: "status.mod_count", Value: c.count},
			bson.E{Key: "order", Value: ordersOf(leases...)},
		)
		// The filter also fits indexes on the status and the order.
		statements = append(statements, append(forAll(statement(filter, update)), bson.E{Key: "hint", Value: field("_id", 1)}))
	}
	return encodeStatements(statements...)
}

// findLost returns the leases that no running record has.
func (d *Driver) findLost(ctx context.Context, leases []driver.Lease) (lost []driver.Lease, err error) {
	changes := make([]*change, len(leases))
	for i, l := range leases {
		changes[i] = &change{queue: l.Queue, name: l.Name}
	}
	found, err := d.find(ctx, changes)
	if err != nil {
		return nil, err
	}
	for _, l := range leases {
		if doc := found[key{l.Queue, l.Name}]; doc == nil || !doc.holds(l) || !doc.runs() {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// Release implements driver.Driver.
func (d *Driver) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return d.release(plain(ctx), handBacks)
}

func (d *Driver) release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	changes := make([]*change, len(handBacks))
	for i, h := range handBacks {
		changes[i] = d.handBack(h)
	}
	if err := d.apply(ctx, changes); err != nil {
		return nil, fmt.Errorf("releasing %d records: %w", len(handBacks), err)
	}
	return errorsOf(changes, func(i int) driver.Lease { return handBacks[i].Lease }), nil
}

// handBack returns the change that hands a lease back.
func (d *Driver) handBack(h driver.HandBack) *change {
	now := time.Now()
	return &change{
		queue:  h.Lease.Queue,
		name:   h.Lease.Name,
		before: d.leases.take(h.Lease),
		step: func(doc *document) error {
			if !doc.holds(h.Lease) || !doc.runs() {
				return leaseLost(h.Lease)
			}
			doc.handBack(h, now)
			return nil
		},
	}
}
