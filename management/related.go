package management

import (
	"context"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// scopesOf returns the scopes that a job needs, and their holders. free are the limited scopes among them that fewer
// jobs hold than their limits allow.
func (i *inspector) scopesOf(ctx context.Context, r *driver.Record) (uses []ScopeUse, free []string, err error) {
	uses = []ScopeUse{}
	for _, name := range neededScopes(r) {
		use := ScopeUse{Name: name, Held: slices.Contains(r.Scopes, name)}
		switch {
		case use.Held:
			use.Holder = new(refOf(r))
		case !driver.StateOf(r, i.store.Now()).IsFinal():
			holder, isFull, err := i.holder(ctx, r.Group, name)
			if err != nil {
				return nil, nil, err
			}
			if holder != nil {
				use.Holder, use.HolderState, use.HolderSince = new(refOf(holder)), driver.StateOf(holder, i.store.Now()), heldSince(holder)
			}
			if !isFull {
				free = append(free, name)
			}
		}
		uses = append(uses, use)
	}
	return uses, free, nil
}

func neededScopes(r *driver.Record) []string {
	scopes := slices.Clone(r.RequiredScopes)
	for _, name := range r.EnqueueScopes {
		if !slices.Contains(scopes, name) {
			scopes = append(scopes, name)
		}
	}
	return scopes
}

// holder returns the job that holds a scope, the first one of a limited scope; nil if none does. isFull reports whether
// as many jobs hold the scope as its limit allows.
func (i *inspector) holder(ctx context.Context, queue, scope string) (first *driver.Record, isFull bool, err error) {
	_, limit, _ := amboy.ScopeLimit(scope)
	query := driver.Query{Queues: []string{queue}, Scope: scope, Holding: true, Latest: true}
	holders := 0
	for r, err := range i.records(ctx, query, driver.PageRequest{Limit: min(limit, pageSize)}) {
		if err != nil {
			return nil, false, err
		}
		if first == nil {
			first = r
		}
		holders++
		if holders == limit {
			return first, true, nil
		}
	}
	return first, false, nil
}

// edgesOf returns the IDs of the jobs that a job depends on, each once.
func edgesOf(r *driver.Record) []string {
	if r.Dependency == nil {
		return nil
	}
	var edges []string
	seen := map[string]bool{}
	for _, id := range r.Dependency.Edges {
		if !seen[id] {
			seen[id] = true
			edges = append(edges, id)
		}
	}
	return edges
}

// failedEdge reports whether a job has recorded that a job it depends on ended without success.
func failedEdge(r *driver.Record, id string) bool {
	return r.Dependency != nil && slices.Contains(r.Dependency.Failed, id)
}

// dependsOn describes the jobs that a job depends on, up to MaxLimit of them.
func (i *inspector) dependsOn(ctx context.Context, r *driver.Record) (list []Dependency, more bool, err error) {
	ids := edgesOf(r)
	if len(ids) > MaxLimit {
		ids, more = ids[:MaxLimit], true
	}
	found, err := i.byIDs(ctx, r.Group, ids)
	if err != nil {
		return nil, false, err
	}
	list = []Dependency{}
	for _, id := range ids {
		d := Dependency{JobRef: JobRef{Queue: r.Group, ID: id}, Failed: failedEdge(r, id)}
		if other := found[id]; other != nil {
			d.State, d.Type = driver.StateOf(other, i.store.Now()), other.Type
			d.Failed = d.Failed || slices.Contains(unsuccessfulStates, d.State)
		}
		list = append(list, d)
	}
	return list, more, nil
}

// byIDs returns those of the named jobs of a queue that exist, by ID.
func (i *inspector) byIDs(ctx context.Context, queue string, ids []string) (map[string]*driver.Record, error) {
	found := map[string]*driver.Record{}
	for some := range slices.Chunk(ids, pageSize) {
		query := driver.Query{Queues: []string{queue}, JobIDs: some, Latest: true}
		for r, err := range i.records(ctx, query, driver.PageRequest{Limit: pageSize}) {
			if err != nil {
				return nil, err
			}
			found[r.JobID()] = r
		}
	}
	return found, nil
}

// dependents describes the jobs that depend on a job, up to DefaultLimit of them.
func (i *inspector) dependents(ctx context.Context, r *driver.Record) (list []Dependency, more bool, err error) {
	list = []Dependency{}
	isFailed := slices.Contains(unsuccessfulStates, driver.StateOf(r, i.store.Now()))
	query := driver.Query{Queues: []string{r.Group}, DependsOn: r.JobID(), Latest: true}
	for other, err := range i.records(ctx, query, driver.PageRequest{Limit: DefaultLimit + 1}) {
		if err != nil {
			return nil, false, err
		}
		if len(list) == DefaultLimit {
			return list, true, nil
		}
		list = append(list, Dependency{
			JobRef: refOf(other),
			State:  driver.StateOf(other, i.store.Now()),
			Type:   other.Type,
			Failed: isFailed || failedEdge(other, r.JobID()),
		})
	}
	return list, false, nil
}

// hasEnded reports whether a job in a state, empty for a missing job, no longer blocks others.
func hasEnded(state amboy.JobState) bool { return state == "" || state.IsFinal() }
