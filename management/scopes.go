package management

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// ScopeFilter selects scopes.
type ScopeFilter struct {
	Queues []string `json:"queues,omitempty"`
	// Name is the name of a scope; empty for all.
	Name string `json:"name,omitempty"`
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
	// Waiting counts the jobs that wait for it, up to MaxLimit.
	Waiting Count `json:"waiting"`
}

// ScopePage is a page of scopes.
type ScopePage struct {
	// Scopes are the scopes of the page with their holders.
	Scopes []Scope `json:"scopes"`
	Next   string  `json:"next,omitempty"`
}

// Validate returns an *InvalidArgumentError for each field that is not valid, joined.
func (f ScopeFilter) Validate() error {
	return errors.Join(validateValues("queues", f.Queues, true), validateText("name", f.Name))
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
	holders, err := i.holders(ctx, filter.Name, driver.Query{
		Queues: queues, Scope: filter.Name, Holding: true, Latest: true,
	}, driver.PageRequest{After: driver.Cursor(after), Limit: limit, Newest: page.Newest})
	if err != nil {
		return ScopePage{}, cursorError(page.Cursor, err)
	}
	next, err := i.encodeCursor(ctx, list, string(holders.Next))
	if err != nil {
		return ScopePage{}, err
	}
	scopes, err := i.describeScopes(ctx, holders.Records, filter.Name)
	return ScopePage{Scopes: scopes, Next: next}, err
}

// describeScopes describes the scopes that jobs hold, or only the named one.
func (i *inspector) describeScopes(ctx context.Context, holders []*driver.Record, name string) ([]Scope, error) {
	scopes := []Scope{}
	for _, r := range holders {
		for _, held := range heldScopes(r, name) {
			scope, err := i.scope(ctx, r, held)
			if err != nil {
				return nil, err
			}
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// holders returns a page of jobs that together hold at most as many scopes as the limit of
// the page. A single job may hold more.
func (i *inspector) holders(ctx context.Context, name string, query driver.Query, page driver.PageRequest) (driver.Page, error) {
	found, err := i.store.Admin().Find(ctx, query, page)
	if err != nil {
		return driver.Page{}, err
	}
	fit, scopes := 0, 0
	for _, r := range found.Records {
		scopes += len(heldScopes(r, name))
		if fit > 0 && scopes > page.Limit {
			break
		}
		fit++
	}
	if fit == len(found.Records) {
		return found, nil
	}
	page.Limit = fit // so that the cursor points after these
	return i.store.Admin().Find(ctx, query, page)
}

// heldScopes returns the scopes that a job holds, or only the named one.
func heldScopes(r *driver.Record, name string) []string {
	var held []string
	for _, scope := range r.Scopes {
		if name == "" || scope == name {
			held = append(held, scope)
		}
	}
	return held
}

// scope describes a scope that a job holds.
func (i *inspector) scope(ctx context.Context, holder *driver.Record, name string) (Scope, error) {
	waiting, err := i.count(ctx, driver.Query{
		Queues: []string{holder.Group}, Scope: name, States: []amboy.JobState{amboy.StateBlocked}, Latest: true,
	}, MaxLimit)
	if err != nil {
		return Scope{}, fmt.Errorf("counting the jobs that wait for scope %q of queue %q: %w", name, holder.Group, err)
	}
	return Scope{
		Queue:   holder.Group,
		Name:    name,
		Holder:  refOf(holder),
		State:   driver.StateOf(holder, i.store.Now()),
		Since:   heldSince(holder),
		Waiting: waiting,
	}, nil
}

// heldSince returns when the holder of a scope started, or was put if it has not started.
func heldSince(holder *driver.Record) time.Time {
	if holder.TimeInfo.Start.IsZero() {
		return holder.TimeInfo.Created
	}
	return holder.TimeInfo.Start
}
