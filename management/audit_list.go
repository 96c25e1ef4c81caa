package management

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	auditKind = "audit"
	// auditTimeLayout makes keys whose order is that of the times.
	auditTimeLayout = "2006-01-02T15:04:05.000000000Z"
	// trimEvery is how often, on average, a write looks for entries that are too many.
	trimEvery = 64
	// trimPage is the number of entries that are dropped at a time.
	trimPage = 500
	// recordTimeout bounds the write of an entry, which is made even where the context
	// of the call has ended, since the action was done.
	recordTimeout = 10 * time.Second
	// maxDetailBytes and maxActorBytes bound what an entry has of these.
	maxDetailBytes = 4096
	maxActorBytes  = 512
)

// detailOf tells with what something was done.
func detailOf(what any) string {
	form, err := json.Marshal(what)
	if err != nil {
		return err.Error()
	}
	return cut(string(form), maxDetailBytes)
}

// record writes an entry about what was done, or has failed with an error, which it
// returns. Where it can't be written the error wraps ErrNotRecorded.
func (i *inspector) record(ctx context.Context, entry AuditEntry, failure error) error {
	entry.Time = i.store.Now().UTC()
	entry.Actor = cut(ActorOf(ctx), maxActorBytes)
	if failure != nil {
		entry.Error = cut(failure.Error(), maxDetailBytes)
	}
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := i.keepEntry(writing, entry)
	if err != nil {
		return errors.Join(failure, fmt.Errorf("%w: %w", ErrNotRecorded, err))
	}
	return failure
}

func (i *inspector) keepEntry(ctx context.Context, entry AuditEntry) error {
	value, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	err = i.store.Admin().Keep(ctx, driver.Note{
		Kind:  auditKind,
		Key:   entry.Time.Format(auditTimeLayout) + " " + rand.Text(),
		Value: value,
		Until: entry.Time.Add(AuditTime),
	})
	if err == nil && mathrand.N(trimEvery) == 0 {
		i.trimOrLog(ctx)
	}
	return err
}

// trimOrLog trims the list. Where that fails a later write tries it again.
func (i *inspector) trimOrLog(ctx context.Context) {
	if err := i.trimAudit(ctx); err != nil {
		logging.Warning(ctx, message.Fields{"message": "could not drop old entries of the audit list", "error": err.Error()})
	}
}

// trimAudit drops the oldest entries beyond MaxAudit.
func (i *inspector) trimAudit(ctx context.Context) error {
	admin := i.store.Admin()
	latest, err := admin.Notes(ctx, driver.NoteRequest{Kind: auditKind, Limit: MaxAudit, Last: true})
	if err != nil || len(latest) < MaxAudit {
		return err
	}
	oldest := latest[len(latest)-1].Key
	for {
		old, err := admin.Notes(ctx, driver.NoteRequest{Kind: auditKind, To: oldest, Limit: trimPage})
		if err != nil || len(old) == 0 {
			return err
		}
		keys := make([]string, len(old))
		for n, note := range old {
			keys[n] = note.Key
		}
		if err := admin.Drop(ctx, auditKind, keys...); err != nil {
			return err
		}
	}
}

func (i *inspector) Audit(ctx context.Context, page PageRequest) (AuditPage, error) {
	limit, errLimit := page.limit()
	if err := i.valid(errLimit); err != nil {
		return AuditPage{}, fmt.Errorf("reading the audit list: %w", err)
	}
	found, err := i.audit(ctx, page, limit)
	if err != nil {
		return AuditPage{}, fmt.Errorf("reading the audit list: %w", err)
	}
	return found, nil
}

// audit reads the list, from the latest entry on, and leaves those out that are of
// other queues than are meant.
func (i *inspector) audit(ctx context.Context, page PageRequest, limit int) (AuditPage, error) {
	list, err := listOf("audit")
	if err != nil {
		return AuditPage{}, err
	}
	before, err := i.decodeCursor(ctx, list, page.Cursor)
	if err != nil {
		return AuditPage{}, err
	}
	found := AuditPage{Entries: []AuditEntry{}}
	for {
		notes, err := i.store.Admin().Notes(ctx, driver.NoteRequest{Kind: auditKind, To: before, Limit: limit + 1, Last: true})
		if err != nil {
			return AuditPage{}, err
		}
		for _, note := range notes {
			if len(found.Entries) == limit {
				found.Next, err = i.encodeCursor(ctx, list, before)
				return found, err
			}
			before = note.Key
			if entry := i.entryOf(ctx, note); entry != nil {
				found.Entries = append(found.Entries, *entry)
			}
		}
		if len(notes) <= limit {
			return found, nil
		}
	}
}

// entryOf reads an entry; nil for one of a queue that is not meant, and for one that
// can't be read.
func (i *inspector) entryOf(ctx context.Context, note driver.Note) *AuditEntry {
	var entry AuditEntry
	if err := json.Unmarshal(note.Value, &entry); err != nil {
		leaveOut(ctx, note, err)
		return nil
	}
	if meant := i.store.Queues(); len(meant) > 0 && !slices.Contains(meant, entry.Queue) {
		return nil
	}
	return &entry
}
