package management

import (
	"context"
	"slices"
	"time"
)

// The limits of the audit list.
const (
	// MaxAudit is the approximate number of entries kept. The oldest are dropped.
	MaxAudit = 10_000
	// MaxAuditOfQueue is the approximate number of entries kept for one queue, so that a
	// tenant can't push out the entries of others. It also bounds the entries that count
	// refused calls and name no queue.
	MaxAuditOfQueue = 1_000
	// MaxAuditOfActor is the approximate number of other entries kept for one actor that
	// name no queue.
	MaxAuditOfActor = 2_500
	// AuditTime is how long an entry is kept.
	AuditTime = 90 * 24 * time.Hour
)

// AuditEntry describes one action.
type AuditEntry struct {
	Time time.Time `json:"time"`
	// Actor is who acted; empty if unknown.
	Actor string `json:"actor,omitempty"`
	// What is the action: an ActionKind, "create", "control", WhatCreateSchedule and the like, or
	// WhatRefused.
	What string `json:"what"`
	// Queue and JobID name the queue and the job, if the action concerned one. For an
	// action by a filter, Queue is set if the filter names exactly one queue.
	Queue string `json:"queue,omitempty"`
	JobID string `json:"job_id,omitempty"`
	// Detail is the action, the filter or the change, as JSON. Long details are cut. It
	// does not contain the arguments of a job. For refused calls it describes one of them.
	Detail string `json:"detail,omitempty"`
	// Done and Skipped count jobs. The pages of an action by a filter within an hour have one
	// entry, with their sums and the time of the first.
	Done    int `json:"done,omitempty"`
	Skipped int `json:"skipped,omitempty"`
	// Refused counts the refused calls of the actor on the queue within an hour from Time.
	// They changed nothing, and have no entries of their own. The count may lag: up to half
	// of the calls made in another process may be missing.
	Refused int `json:"refused,omitempty"`
	// Error is why the action failed; empty if it did not. It omits what a store reports.
	Error string `json:"error,omitempty"`
}

// AuditedActions returns the values that the What of an AuditEntry may have, sorted.
func AuditedActions() []string {
	names := []string{
		"create", string(Edit), "control", WhatRefused,
		WhatCreateSchedule, WhatChangeSchedule, WhatPauseSchedule, WhatResumeSchedule, WhatDeleteSchedule, WhatTriggerSchedule,
	}
	for _, kind := range ActionKinds() {
		names = append(names, string(kind))
	}
	slices.Sort(names)
	return names
}

// AuditFilter selects entries of the audit list. Empty fields match everything; non-empty fields
// are ANDed, and a list matches if one of its values does.
type AuditFilter struct {
	// Queues are the names of queues.
	Queues []string `json:"queues,omitempty"`
	// Actors are names of actors. The empty name selects the entries without one.
	Actors []string `json:"actors,omitempty"`
	// What are values of AuditEntry.What.
	What []string `json:"what,omitempty"`
	// JobID is the ID of a job.
	JobID string `json:"job_id,omitempty"`
	// Time is when the entry was written.
	Time TimeRange `json:"time,omitzero"`
}

// AuditPage is a page of the audit list.
type AuditPage struct {
	// Entries are the entries of the page, the latest first.
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next,omitempty"`
}

// Recorder writes actions that were taken by other means to the audit list. The Inspectors
// of this package are Recorders.
type Recorder interface {
	// Record writes an entry, and sets its Time, Actor and Error: Actor is that of ctx (see
	// WithActor), and Error is the public part of failure, which is nil if the action
	// succeeded. If failure is a refusal, such as an *InvalidArgumentError, the call is only
	// counted (see AuditEntry.Refused). Long texts are cut. Record returns failure, in a
	// *NotRecordedError if the entry could not be written.
	Record(ctx context.Context, entry AuditEntry, failure error) error
}

var _ Recorder = (*inspector)(nil)

type actorKey struct{}

// WithActor returns a context that carries the name of the actor for the audit list.
func WithActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorOf returns the actor of ctx; empty if it carries none.
func ActorOf(ctx context.Context) string {
	actor, _ := ctx.Value(actorKey{}).(string)
	return actor
}
