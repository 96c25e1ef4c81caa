package mongodb

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// pages schedules the checks of what documents wait for, in pages: the jobs or scopes that come
// next in an index. So a check reads a bounded part of the index, however many documents wait.
type pages struct {
	due   time.Duration // when a check is due, by the driver's clock
	after *key          // the last job or scope of the last page; nil to begin with the first
	left  bool          // the last check, or that of an earlier page, found something
}

const (
	// checkShare is how many times as long as a check takes there is none.
	checkShare = 50
	// pageReads is the maximum number of queries of a page, each of up to sweepBatch documents. If
	// more documents wait for the same job or scope, one query finds only that.
	pageReads = 10
)

// checked records a check that began and ended at two times, and found n jobs or scopes. The next one
// begins after the last of them, or with the first if after is nil.
func (p *pages) checked(began, ended time.Duration, n int, after *key) {
	p.pause(began, ended)
	p.left, p.after = n > 0 || p.after != nil, after // if this was not the first page, there was one
}

// pause is called after each check, also one that failed.
func (p *pages) pause(began, ended time.Duration) { p.due = ended + checkShare*(ended-began) }

// readPage passes the next page of the values of a field that documents wait for to add. It sends
// no query if it is known that there are none.
func (d *Driver) readPage(ctx context.Context, p *pages, path string, some bool, add func(queue string, names ...string)) error {
	began := d.elapsed()
	if !some {
		p.checked(began, began, 0, nil)
		return nil
	}
	var page []key
	after := p.after
	for range pageReads {
		values, last, err := d.readWaits(ctx, path, after)
		if err != nil {
			p.pause(began, d.elapsed())
			return err
		}
		page, after = append(page, values...), last
		if after == nil || len(page) >= sweepBatch {
			break
		}
	}
	if len(page) > sweepBatch {
		page = page[:sweepBatch]
		after = &page[sweepBatch-1]
	}
	p.checked(began, d.elapsed(), len(page), after)
	for _, k := range page {
		add(k.queue, k.name)
	}
	return nil
}

// readWaits returns the values of a field after a value, in their order, from up to sweepBatch
// documents. last is the last of them, or nil if there are no more.
//
// The hint makes the documents come in the order of their first value after the given one. So
// of the values up to the first one of the last document, none is missing. Those above it may be
// incomplete and are left to the next call.
func (d *Driver) readWaits(ctx context.Context, path string, after *key) (values []key, last *key, err error) {
	opts := options.Find().SetHint(d.waitsIndex(path)).SetLimit(sweepBatch).
		SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: "group", Value: 1}, {Key: path, Value: 1}})
	for _, filter := range d.waitsAfter(path, after) {
		n := 0
		err = d.each(ctx, filter, opts, func(doc *document) error {
			n++
			ahead := doc.waitsFor(after)
			values = append(values, ahead...)
			if len(ahead) > 0 {
				last = new(slices.MinFunc(ahead, key.compare))
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		if n == sweepBatch {
			break
		}
		last = nil
	}
	slices.SortFunc(values, key.compare)
	values = slices.Compact(values)
	if last != nil {
		values = slices.DeleteFunc(values, func(k key) bool { return k.compare(*last) > 0 })
	}
	return values, last, nil
}

// waitsFor returns the jobs or scopes after one that a document waits for, of which one kind was read.
func (doc *document) waitsFor(after *key) (ahead []key) {
	names := doc.Line.Edges
	if doc.Line.Scope != "" {
		names = append(names, doc.Line.Scope)
	}
	for _, name := range names {
		if k := (key{doc.Group, name}); after == nil || k.compare(*after) > 0 {
			ahead = append(ahead, k)
		}
	}
	return ahead
}

// compare compares keys in the order of an index, which is that of their bytes.
func (k key) compare(other key) int {
	return cmp.Or(strings.Compare(k.queue, other.queue), strings.Compare(k.name, other.name))
}

// waitsAfter returns filters for the documents with a value of a field after a given one, in the
// order of the index. In a store of many queues those of later queues need a filter of their own.
func (d *Driver) waitsAfter(path string, after *key) []bson.D {
	some := field(path, field("$gte", ""))
	switch {
	case after == nil && !d.opts.Grouped:
		return []bson.D{some}
	case after == nil:
		return []bson.D{append(slices.Clone(anyQueue), some...)}
	}
	rest := d.inQueue(after.queue, bson.E{Key: path, Value: field("$gt", after.name)})
	if !d.opts.Grouped {
		return []bson.D{rest}
	}
	return []bson.D{rest, append(field("group", field("$gt", after.queue)), some...)}
}

// waitsIndex returns the keys of the index of the jobs or scopes that documents wait for.
func (d *Driver) waitsIndex(path string) bson.D {
	keys := ascending(path)
	if path == lineScope {
		keys = append(keys, inRank...)
	}
	if d.opts.Grouped {
		keys = groupedHint(keys)
	}
	return keys
}

// The fields that contain what a document waits for.
const (
	lineEdges = "line.edges"
	lineScope = "line.scope"
)
