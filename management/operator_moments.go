package management

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

const (
	// actedEntries is the number of entries of the audit list, of those of the queue and of all,
	// that are read for the timeline of a job.
	actedEntries = 200
	// actedFilters is the number of actions by filters that are compared with a job.
	actedFilters = 10
)

// operatorMoments returns the moments at which operators acted on a job. An action by a filter is
// one of them if what the filter says of the job, other than its state, its error and its times,
// fits the job.
func (i *inspector) operatorMoments(ctx context.Context, r *driver.Record) ([]Moment, error) {
	moments, filters := []Moment{}, 0
	for _, ofQueue := range []bool{true, false} {
		entries, err := i.entriesSince(ctx, r, ofQueue)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			m := Moment{Time: entry.Time, What: entry.What, Actor: entry.Actor, AllQueues: !ofQueue}
			switch {
			case entry.Done == 0 || entry.What == WhatRefused:
				continue
			case entry.JobID == r.JobID() && entry.JobID != "":
				var action Action
				if json.Unmarshal([]byte(entry.Detail), &action) == nil {
					m.Detail = action.Reason
				}
			case entry.JobID == "" && filters < actedFilters && slices.Contains(ActionKinds(), ActionKind(entry.What)):
				filters++
				fits, err := i.filterFits(ctx, entry, r)
				if err != nil {
					return nil, err
				}
				if !fits {
					continue
				}
				m.Detail = fmt.Sprintf("with %d jobs that a filter selected", entry.Done)
			default:
				continue
			}
			moments = append(moments, m)
		}
	}
	return moments, nil
}

// entriesSince returns the entries of the audit list since a job was put, the latest first: those of
// its queue, or those of no queue.
func (i *inspector) entriesSince(ctx context.Context, r *driver.Record, ofQueue bool) ([]AuditEntry, error) {
	request := driver.NoteRequest{Kind: auditKind, Limit: actedEntries, Last: true}
	prefix := ""
	if ofQueue {
		if r.Group == "" { // such entries have no share of their own
			return i.entriesOf(ctx, request, r, true)
		}
		prefix = auditSharePrefix(r.Group)
		request.Kind, request.To = auditQueueKind, prefix+"\x7f"
	} else if r.Group == "" {
		return nil, nil
	}
	request.From = prefix + r.TimeInfo.Created.UTC().Format(auditTimeLayout)
	return i.entriesOf(ctx, request, r, ofQueue)
}

func (i *inspector) entriesOf(ctx context.Context, request driver.NoteRequest, r *driver.Record, ofQueue bool) ([]AuditEntry, error) {
	notes, err := i.store.Admin().Notes(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("reading the audit list: %w", err)
	}
	entries := []AuditEntry{}
	for _, note := range notes {
		var entry AuditEntry
		if err := json.Unmarshal(note.Value, &entry); err != nil {
			logUnreadableNote(ctx, note, err)
			continue
		}
		isOf := entry.Queue == r.Group
		if !ofQueue {
			isOf = entry.Queue == ""
		}
		if isOf && !entry.Time.Before(r.TimeInfo.Created.Truncate(time.Millisecond)) {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// filterFits reports whether a job may be one of those that an action by a filter concerned.
func (i *inspector) filterFits(ctx context.Context, entry AuditEntry, r *driver.Record) (bool, error) {
	var req ActRequest
	if json.Unmarshal([]byte(entry.Detail), &req) != nil {
		return false, nil //nolint:nilerr // It was cut.
	}
	f := req.Filter
	if len(f.Queues) > 0 && !slices.Contains(f.Queues, r.Group) || len(f.IDs) > 0 && !slices.Contains(f.IDs, r.JobID()) {
		return false, nil
	}
	if body := f.body(); body != nil && !body(r.Job) {
		return false, nil
	}
	f.States, f.Error, f.ErrorGroup, f.Due, f.Ended = nil, "", "", TimeRange{}, TimeRange{}
	query := f.query([]string{r.Group})
	query.JobIDs = []string{r.JobID()}
	n, err := i.store.Admin().Count(ctx, query, 1)
	return n > 0, err
}

// blockedSince returns since when a blocked job could have run but for the block. acts are the
// actions of operators on it.
func blockedSince(r *driver.Record, acts []Moment) time.Time {
	since := latest(r.TimeInfo.Created, showable(r.TimeInfo.WaitUntil))
	for _, m := range acts {
		switch ActionKind(m.What) {
		case Retry, Release, Reschedule:
			since = latest(since, m.Time)
		}
	}
	return since
}

// blocked describes what a blocked job waits for. free are the limited scopes that it needs, and that fewer jobs hold than
// their limits allow.
func (i *inspector) blocked(job *Job, r *driver.Record, free []string, acts []Moment) *Block {
	b := &Block{Since: blockedSince(r, acts), By: []Blocker{}}
	for _, d := range job.DependsOn {
		if !hasEnded(d.State) {
			b.By = append(b.By, Blocker{Job: &d.JobRef, State: d.State})
		}
	}
	var others []Blocker // jobs with another limit may have the places of a limited scope that seem to be free
	for _, s := range job.Scopes {
		if s.Held || s.Holder == nil {
			continue
		}
		blocker := Blocker{Scope: s.Name, Job: s.Holder, State: s.HolderState, Since: s.HolderSince}
		if slices.Contains(free, s.Name) {
			others = append(others, blocker)
		} else {
			b.By = append(b.By, blocker)
		}
	}
	if len(b.By) == 0 {
		b.By = append(b.By, others...)
	}
	return b
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

func earliest(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }
