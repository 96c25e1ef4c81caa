package management

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// ScopeFilter selects scopes.
type ScopeFilter struct {
	Queues []string `json:"queues,omitempty"`
	// Name is the name of a scope; empty for all.
	Name string `json:"name,omitempty"`
	// Part is a part of the name. The case of the letters A to Z does not matter.
	Part string `json:"part,omitempty"`
}

// has reports whether the filter selects a scope of one of its queues.
func (f ScopeFilter) has(name string) bool {
	return (f.Name == "" || name == f.Name) && driver.HasPart(name, f.Part)
}

// heldBy returns the selected scopes that a job holds.
func (f ScopeFilter) heldBy(r *driver.Record) []string {
	return slices.DeleteFunc(slices.Clone(r.Scopes), func(name string) bool { return !f.has(name) })
}

// Scope is a scope that is held, and one of its holders: a limited scope (see
// amboy.LimitScope) has an entry for each.
type Scope struct {
	Queue string `json:"queue"`
	Name  string `json:"name"`
	// Holder is the job that holds it, and State the state of that job.
	Holder JobRef         `json:"holder"`
	State  amboy.JobState `json:"state"`
	// Since is when the holder started, or was created if it has not started.
	Since time.Time `json:"since,omitzero"`
	// Waiting counts the jobs that need it and do not hold it, up to MaxLimit. Those of all scopes of a
	// page are counted for at most about 1.5 s.
	Waiting Count `json:"waiting"`
}

// ScopePage is a page of scopes. With a Part it may have fewer than the limit, or none, although others
// follow: a page is of at most 10,000 jobs that hold scopes.
type ScopePage struct {
	// Scopes are the scopes of the page with their holders.
	Scopes []Scope `json:"scopes"`
	Next   string  `json:"next,omitempty"`
}

// Validate returns an *InvalidArgumentError for each field that is not valid, joined.
func (f ScopeFilter) Validate() error {
	return errors.Join(validateValues("queues", f.Queues, true), validateText("name", f.Name), validateText("part", f.Part))
}

func (i *inspector) Scopes(ctx context.Context, filter ScopeFilter, page PageRequest) (ScopePage, error) {
	limit, errLimit := page.limit()
	if err := i.check(filter.Validate(), errLimit); err != nil {
		return ScopePage{}, fmt.Errorf("listing scopes: %w", err)
	}
	found, err := i.scopes(ctx, filter, page, limit)
	if err != nil {
		return ScopePage{}, fmt.Errorf("listing scopes: %w", err)
	}
	return found, nil
}

// scopes returns a page of scopes. It pages over the jobs that hold them.
func (i *inspector) scopes(ctx context.Context, filter ScopeFilter, page PageRequest, limit int) (ScopePage, error) {
	queues, err := i.resolveQueues(filter.Queues)
	if err != nil {
		return ScopePage{}, err
	}
	list, err := listDigest("scopes", filter, page.Newest)
	if err != nil {
		return ScopePage{}, err
	}
	after, err := i.decodeCursor(ctx, list, page.Cursor)
	if err != nil {
		return ScopePage{}, err
	}
	holders, err := i.holders(ctx, filter, driver.Query{
		Queues: queues, Scope: filter.Name, Holding: true, Latest: true,
	}, driver.PageRequest{After: driver.Cursor(after), Limit: limit, Newest: page.Newest})
	if err != nil {
		return ScopePage{}, cursorError(page.Cursor, err)
	}
	next, err := i.encodeCursor(ctx, list, string(holders.Next))
	if err != nil {
		return ScopePage{}, err
	}
	scopes, err := i.describeScopes(ctx, holders.Records, filter)
	return ScopePage{Scopes: scopes, Next: next}, err
}

// describeScopes describes the selected scopes that jobs hold.
func (i *inspector) describeScopes(ctx context.Context, holders []*driver.Record, filter ScopeFilter) ([]Scope, error) {
	scopes, now := []Scope{}, i.store.Now()
	waiting := map[string]map[string]Count{}
	for _, r := range holders {
		if waiting[r.Group] == nil {
			waiting[r.Group] = map[string]Count{}
		}
		for _, held := range filter.heldBy(r) {
			waiting[r.Group][held] = Count{}
			scopes = append(scopes, Scope{Queue: r.Group, Name: held, Holder: refOf(r), State: driver.StateOf(r, now), Since: heldSince(r)})
		}
	}
	err := i.countWaiting(ctx, waiting)
	for n := range scopes {
		scopes[n].Waiting = waiting[scopes[n].Queue][scopes[n].Name]
	}
	return scopes, err
}

// countWaiting counts the jobs that wait for scopes, by queue and scope. It reads the blocked jobs of each
// queue once, however many scopes there are.
func (i *inspector) countWaiting(ctx context.Context, waiting map[string]map[string]Count) error {
	limited, cancel := context.WithTimeout(ctx, MaxCountTime)
	defer cancel()
	for _, queue := range slices.Sorted(maps.Keys(waiting)) {
		err := i.countWaitingIn(limited, queue, waiting[queue])
		if err != nil && !endedAlone(limited, ctx) {
			return fmt.Errorf("counting the jobs that wait for scopes of queue %q: %w", queue, err)
		}
	}
	return nil
}

// countWaitingIn counts the jobs of a queue that wait for some scopes. If ctx ends first, it leaves what it has
// counted until then, and returns the error.
func (i *inspector) countWaitingIn(ctx context.Context, queue string, waiting map[string]Count) error {
	counting := len(waiting) // the scopes that have not reached the limit
	query := driver.Query{Queues: []string{queue}, States: []amboy.JobState{amboy.StateBlocked}, Latest: true}
	for r, err := range i.records(ctx, query, driver.PageRequest{Limit: MaxLimit, Brief: true}) {
		if err != nil {
			for name, count := range waiting {
				waiting[name] = Count{Count: count.Count, More: true}
			}
			return err
		}
		for _, name := range r.RequiredScopes {
			count, isWanted := waiting[name]
			switch {
			case !isWanted || count.More || slices.Contains(r.EnqueueScopes, name): // it took those when it was put
			case count.Count < MaxLimit:
				waiting[name] = Count{Count: count.Count + 1}
			default:
				waiting[name] = Count{Count: MaxLimit, More: true}
				counting--
			}
		}
		if counting == 0 {
			break
		}
	}
	return nil
}

// maxHolderPages is how many pages of jobs, of MaxLimit each, are read for a page of scopes.
const maxHolderPages = 10

// holders returns a page of jobs that together hold at most as many selected scopes as the limit
// of the page. A single job may hold more.
func (i *inspector) holders(ctx context.Context, filter ScopeFilter, query driver.Query, page driver.PageRequest) (driver.Page, error) {
	var found driver.Page
	limit, scopes := page.Limit, 0
	for range maxHolderPages {
		if filter.Part != "" {
			page.Limit = MaxLimit // many hold no such scope
		}
		next, err := i.store.Admin().Find(ctx, query, page)
		if err != nil {
			return driver.Page{}, err
		}
		fit := 0
		for _, r := range next.Records {
			held := len(filter.heldBy(r))
			if scopes > 0 && scopes+held > limit {
				break
			}
			scopes += held
			fit++
		}
		isFull := fit < len(next.Records)
		switch {
		case isFull && fit == 0: // the cursor of the page before points after the last that fits
			return found, nil
		case isFull:
			page.Limit = fit // so that the cursor points after these
			next, err = i.store.Admin().Find(ctx, query, page)
			if err != nil {
				return driver.Page{}, err
			}
		}
		matching := slices.DeleteFunc(next.Records, func(r *driver.Record) bool { return len(filter.heldBy(r)) == 0 })
		found.Records, found.Next = append(found.Records, matching...), next.Next
		if isFull || scopes >= limit || found.Next == "" || filter.Part == "" {
			break
		}
		page.After = found.Next
	}
	return found, nil
}

// heldSince returns when the holder of a scope started, or was put if it has not started.
func heldSince(holder *driver.Record) time.Time {
	if holder.TimeInfo.Start.IsZero() {
		return holder.TimeInfo.Created
	}
	return holder.TimeInfo.Start
}
