package management

import (
	"context"
	"time"
)

// The bounds of the audit list.
const (
	// MaxAudit is the number of entries that it has, or some more. The oldest are dropped.
	MaxAudit = 10_000
	// MaxAuditOfQueue is how many of them are about one queue, or some more, so that a
	// tenant can't push out those about others. It does not hold for those that name no
	// queue.
	MaxAuditOfQueue = 1_000
	// AuditTime is how long an entry is kept.
	AuditTime = 90 * 24 * time.Hour
)

// AuditEntry tells of something that was done.
type AuditEntry struct {
	Time time.Time `json:"time"`
	// Actor is who did it; empty where nobody said.
	Actor string `json:"actor,omitempty"`
	// What was done: an ActionKind, "create", "control", or WhatRefused.
	What string `json:"what"`
	// Queue and JobID name the job or the queue, where it was one. Of an action by a
	// filter, Queue is that which the filter names, where it names just one.
	Queue string `json:"queue,omitempty"`
	JobID string `json:"job_id,omitempty"`
	// Detail says with what: the action, the filter or the change, as JSON, or its
	// beginning where that is long. The arguments of a job are not in it. Of calls that were
	// refused it has one.
	Detail string `json:"detail,omitempty"`
	// Done and Skipped count the jobs.
	Done    int `json:"done,omitempty"`
	Skipped int `json:"skipped,omitempty"`
	// Refused counts the calls about the queue by the actor, in the hour from Time on, that
	// were refused and changed nothing: they have no entries of their own. Of the calls in
	// another process, up to half may not be counted yet.
	Refused int `json:"refused,omitempty"`
	// Error is why it failed; empty where it did not. What a store says is not in it.
	Error string `json:"error,omitempty"`
}

// AuditPage is a page of the audit list.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next,omitempty"`
}

// Recorder writes to the audit list what was done by other means. The Inspectors of this
// package are Recorders.
type Recorder interface {
	// Record writes an entry, whose Time, Actor and Error it sets: Actor is that of ctx (see
	// WithActor), and Error is what may be told of failure, which is nil if it was done.
	// Where failure says that it was refused, as an *InvalidArgumentError does, the call is
	// counted instead (see AuditEntry.Refused). Long texts are cut. It returns failure,
	// joined with an error that wraps ErrNotRecorded if the entry could not be written.
	Record(ctx context.Context, entry AuditEntry, failure error) error
}

var _ Recorder = (*inspector)(nil)

type actorKey struct{}

// WithActor returns a context that carries who does something, for the audit list.
func WithActor(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorOf returns who does something; empty where ctx does not carry it.
func ActorOf(ctx context.Context) string {
	actor, _ := ctx.Value(actorKey{}).(string)
	return actor
}
