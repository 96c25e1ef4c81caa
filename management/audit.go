package management

import (
	"context"
	"time"
)

// MaxAudit is the number of entries that the audit list has, or some more; the oldest
// are dropped. An entry is kept for AuditTime.
const (
	MaxAudit  = 10_000
	AuditTime = 90 * 24 * time.Hour
)

// AuditEntry tells of something that was done.
type AuditEntry struct {
	Time time.Time `json:"time"`
	// Actor is who did it; empty where nobody said.
	Actor string `json:"actor,omitempty"`
	// What was done: an ActionKind, "create" or "control".
	What string `json:"what"`
	// Queue and JobID name the job or the queue, where it was one. Of an action by a
	// filter, Queue is that which the filter names, where it names just one.
	Queue string `json:"queue,omitempty"`
	JobID string `json:"job_id,omitempty"`
	// Detail says with what: the action, the filter or the change, as JSON, or its
	// beginning where that is long. The arguments of a job are not in it.
	Detail string `json:"detail,omitempty"`
	// Done and Skipped count the jobs.
	Done    int `json:"done,omitempty"`
	Skipped int `json:"skipped,omitempty"`
	// Error is why it failed; empty where it did not.
	Error string `json:"error,omitempty"`
}

// AuditPage is a page of the audit list.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next,omitempty"`
}

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
