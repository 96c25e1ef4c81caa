package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// statePlaces are the possible places of a record in a state.
var statePlaces = map[amboy.JobState][]table.Place{
	amboy.StateScheduled: {table.Scheduled, table.Ready},
	amboy.StatePending:   {table.Scheduled, table.Ready},
	amboy.StateBlocked:   {table.Waiting, table.Postponed, table.ScopeBlocked},
	amboy.StateParked:    {table.Parked},
	amboy.StateRunning:   {table.Running},
	amboy.StateRetrying:  {table.Retrying},
	amboy.StateSucceeded: {table.Succeeded},
	amboy.StateFailed:    {table.Failed},
	amboy.StateCanceled:  {table.Canceled},
	amboy.StateExpired:   {table.Expired}, // and stale records
}

// selection is a Query in SQL.
type selection struct {
	// condition holds for the selected rows of the table jobs.
	table.Condition
	// queues are the names of the records' queues; empty if all queues are selected.
	queues table.Names
	// ids are the IDs of the jobs if the access path selects by them and by the queues, with an
	// index; the condition does not. prefix is the constant prefix of the IDs, or empty.
	ids    table.Names
	prefix string
	// idPart and tagPart are parts of the IDs and tags, with ASCII letters in lower case.
	idPart, tagPart string
	// dependent is true if the records depend on a given job.
	dependent bool
	// tags are the required tags.
	tags table.Names
	// holding is true if the records hold scopes, and held is the one that they hold, or empty.
	holding bool
	held    string
	// places are the only possible places of the records if an index covers them; empty
	// if others are possible.
	places []table.Place
	// stale is the current time if records are selected that expired before they were
	// claimed.
	stale table.Instant
	// dueBy is the current time if scheduled records are selected only if they are due.
	dueBy  table.Instant
	fewDue bool // whether few records are due
	// priorities are the priorities of the ready records of the only queue, the highest
	// first; none if they are unknown or too many.
	priorities []int
	// path is the access path; nil before the first page. tried is true once another one was
	// considered after a page.
	path  *accessPath
	tried bool
	// short is true if the next page scans few rows, because the first rows are probably the
	// wanted records.
	short bool
	// search scans records, if they must be searched for; nil if the caller's connection scans all.
	search *search
}

// inQueues selects by the names of queues. The plus keeps SQLite from using an index that
// has another order.
const inQueues = "+queue IN (" + queueIDs + ")"

const queueIDs = "SELECT id FROM queues WHERE name IN (SELECT value FROM json_each(?))"

// hasTag selects by a tag.
const hasTag = "EXISTS (SELECT 1 FROM tags WHERE tag = ? AND of_seq = jobs.seq)"

// holdsScopes is the term of the index of records that hold scopes. Records in it that hold
// none were claimed because they had expired.
const holdsScopes = "((place < 8 AND enqueue_scopes IS NOT NULL) OR (place = 6 AND scopes IS NOT NULL))"

// startedInTime is the condition on running records that were not claimed because they had expired.
const startedInTime = "(dispatch_by IS NULL OR dispatch_by >= started)"

// The conditions on records with a scope, taken when they start or when they were put.
const (
	hasScope        = "EXISTS (SELECT 1 FROM json_each(scopes) WHERE value = ?)"
	hasEnqueueScope = "EXISTS (SELECT 1 FROM json_each(enqueue_scopes) WHERE value = ?)"
)

func newSelection(q driver.Query, now time.Time) (*selection, error) {
	if q.DependsOn != "" && len(q.Queues) == 0 {
		return nil, fmt.Errorf("invalid query: DependsOn needs one of Queues (is %q)", q.DependsOn)
	}
	s := &selection{queues: q.Queues, dependent: q.DependsOn != "", tags: q.Tags, holding: q.Holding}
	s.addIDs(q)
	if len(s.ids) == 0 {
		s.addList(inQueues, q.Queues)
	}
	s.addList("type IN (SELECT value FROM json_each(?))", q.Types)
	s.addStates(q.States, table.InstantOf(now).Int64)
	switch {
	case q.Holding && q.Scope != "":
		s.held = q.Scope
		s.Add("((place < 8 AND "+hasEnqueueScope+") OR (place = 6 AND "+hasScope+" AND "+startedInTime+"))", q.Scope, q.Scope)
	case q.Holding:
		s.Add(holdsScopes)
		s.Add("(enqueue_scopes IS NOT NULL OR " + startedInTime + ")")
	case q.Scope != "":
		s.Add("("+hasScope+" OR "+hasEnqueueScope+")", q.Scope, q.Scope)
	}
	if q.DependsOn != "" {
		s.Add("jobs.seq IN (SELECT from_seq FROM edges WHERE queue IN ("+queueIDs+") AND to_job = ?)", s.queues, q.DependsOn)
	}
	for _, tag := range q.Tags {
		s.Add(hasTag, tag)
	}
	s.addPart("job_id", q.IDPart)
	s.addPart("type", q.TypePart)
	s.addPart("last_error", q.Error)
	s.idPart, s.tagPart = driver.LowerPart(q.IDPart), driver.LowerPart(q.TagPart)
	if s.tagPart != "" {
		s.Add("tags IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(tags) WHERE instr(lower(value), ?) > 0)", s.tagPart)
	}
	s.AddRange("created", q.Created)
	s.AddRange("wait_until", q.Due)
	s.AddRange("ended", q.Ended)
	if q.Latest {
		s.Add("replaced = 0")
	}
	return s, nil
}

// addPart selects by a part of a column. The function lower changes ASCII letters only.
func (s *selection) addPart(column, part string) {
	if part != "" {
		s.Add("instr(lower("+column+"), ?) > 0", driver.LowerPart(part))
	}
}

func (s *selection) addList(term string, values table.Names) {
	if len(values) > 0 {
		s.Add(term, values)
	}
}

// manyJobs is the number of IDs from which on they are not looked up in each queue of the
// store.
const manyJobs = 10

func (s *selection) addIDs(q driver.Query) {
	if len(q.Queues) > 0 || len(q.JobIDs) <= manyJobs {
		s.ids = q.JobIDs
	} else {
		s.addList("job_id IN (SELECT value FROM json_each(?))", q.JobIDs)
	}
	wildcard := strings.IndexAny(q.ID, "*?")
	switch {
	case q.ID == "":
	case len(s.ids) == 0 && wildcard < 0:
		s.ids = table.Names{q.ID}
	default:
		s.Add("job_id GLOB ?", globPattern(q.ID))
		if len(s.ids) == 0 {
			s.prefix = q.ID[:wildcard]
		}
	}
}

func (s *selection) addStates(states []amboy.JobState, now int64) {
	if len(states) == 0 {
		return
	}
	s.AddStates(states, now)
	for _, state := range states {
		if state == amboy.StateExpired {
			s.stale = table.Instant{Int64: now, Valid: true}
		}
		for _, p := range statePlaces[state] {
			if !slices.Contains(s.places, p) {
				s.places = append(s.places, p)
			}
		}
	}
	if slices.Contains(states, amboy.StatePending) && !slices.Contains(states, amboy.StateScheduled) {
		s.dueBy = table.Instant{Int64: now, Valid: true}
	}
	if slices.Contains(s.places, table.Succeeded) {
		s.places = nil // almost all records have succeeded
	}
}

// globPattern escapes brackets in a pattern.
func globPattern(pattern string) string { return strings.ReplaceAll(pattern, "[", "[[]") }
