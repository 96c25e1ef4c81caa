package management

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	auditKind = "audit"
	// auditQueueKind is the kind of the copies of the entries that are ordered by queue, or by
	// what bounds the entries without one.
	auditQueueKind = "audit-queue"
	// auditTimeLayout formats times as keys that sort in the order of the times.
	auditTimeLayout = "2006-01-02T15:04:05.000000000Z"
	// trimEvery is the average number of writes between two trims of the list.
	trimEvery = 64
	// trimPage is the number of entries that are dropped at a time.
	trimPage = 500
	// recordTimeout bounds the write of an entry. The entry is written even if the context
	// of the call has ended, because the action was done.
	recordTimeout = 10 * time.Second
	// maxDetailBytes and maxActorBytes bound the fields of an entry.
	maxDetailBytes = 4096
	maxActorBytes  = 512
)

// detailOf returns the parameters of an action as JSON, cut to maxDetailBytes.
func detailOf(what any) string {
	form, err := json.Marshal(what)
	if err != nil {
		return err.Error()
	}
	return cut(string(form), maxDetailBytes)
}

func (i *inspector) Record(ctx context.Context, entry AuditEntry, failure error) error {
	if err := i.check(); err != nil {
		return &NotRecordedError{Failure: failure, Reason: err}
	}
	for _, text := range []*string{&entry.What, &entry.Queue, &entry.JobID} {
		*text = cut(*text, MaxFilterBytes)
	}
	entry.Detail, entry.Refused = cut(entry.Detail, maxDetailBytes), 0
	return i.record(ctx, entry, failure)
}

// record writes an entry about an action, and returns its failure, nil if it succeeded. A
// refused call is counted instead. If the write fails, the error is a *NotRecordedError.
func (i *inspector) record(ctx context.Context, entry AuditEntry, failure error) error {
	entry.Time = i.store.Now().UTC()
	return i.recordAs(ctx, auditKey(entry.Time), entry, failure)
}

// actorOf returns the actor of ctx as entries have it.
func actorOf(ctx context.Context) string { return cut(ActorOf(ctx), maxActorBytes) }

// recordAs is record for an entry with a key and a time.
func (i *inspector) recordAs(ctx context.Context, key string, entry AuditEntry, failure error) error {
	entry.Actor = actorOf(ctx)
	if failure != nil {
		text, wasRefused := publicText(failure)
		if wasRefused && entry.Done == 0 {
			if errors.Is(failure, ErrUnknownQueue) {
				entry.Queue = "" // a caller can make up any name
			}
			counted, write := i.refusals.add(refusedBy{entry.Queue, entry.Actor}, entry.Time)
			if !write {
				return failure
			}
			key = counted.key
			entry = AuditEntry{
				Time: counted.since, Actor: entry.Actor, What: WhatRefused, Queue: entry.Queue, Refused: counted.count,
				Detail: detailOf(refusedCall{entry.What, entry.JobID, text}),
			}
		} else {
			entry.Error = cut(text, maxDetailBytes)
		}
	}
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := i.writeEntry(writing, key, entry)
	if err != nil {
		return &NotRecordedError{Failure: failure, Reason: err}
	}
	return failure
}

// auditKey returns the key of a new entry. It sorts after the keys of earlier times.
func auditKey(now time.Time) string {
	return now.UTC().Format(auditTimeLayout) + " " + rand.Text()
}

// auditShare identifies the entries that are bounded together with an entry, and returns
// their maximum number.
func auditShare(entry AuditEntry) (name string, most int) {
	switch {
	case entry.Queue != "":
		return entry.Queue, MaxAuditOfQueue
	case entry.What == WhatRefused:
		return "\x00refused", MaxAuditOfQueue
	default:
		return "\x00actor " + entry.Actor, MaxAuditOfActor
	}
}

// auditSharePrefix is the prefix of the keys of the copies of a share's entries. It contains a
// hash, because the name of a queue may be too long for a key.
func auditSharePrefix(share string) string {
	sum := sha256.Sum256([]byte(share))
	return hex.EncodeToString(sum[:16]) + " "
}

func (i *inspector) writeEntry(ctx context.Context, key string, entry AuditEntry) error {
	value, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	until := entry.Time.Add(AuditTime)
	share, most := auditShare(entry)
	err = i.store.Admin().Keep(ctx,
		driver.Note{Kind: auditKind, Key: key, Value: value, Until: until},
		driver.Note{Kind: auditQueueKind, Key: auditSharePrefix(share) + key, Value: value, Until: until})
	if err == nil && mathrand.N(trimEvery) == 0 {
		i.trimOrLog(ctx, share, most)
	}
	return err
}

// trimOrLog trims the list and the entries of a share. If that fails, a later write tries
// again.
func (i *inspector) trimOrLog(ctx context.Context, share string, most int) {
	err := errors.Join(i.trimAudit(ctx), i.trimAuditOf(ctx, share, most))
	if err != nil {
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
		var keys, copies []string
		for _, note := range old {
			keys = append(keys, note.Key)
			var entry AuditEntry
			if json.Unmarshal(note.Value, &entry) == nil {
				share, _ := auditShare(entry)
				copies = append(copies, auditSharePrefix(share)+note.Key)
			}
		}
		if err := i.dropEntries(ctx, keys, copies); err != nil {
			return err
		}
	}
}

// trimAuditOf drops the oldest entries of a share beyond a number.
func (i *inspector) trimAuditOf(ctx context.Context, share string, most int) error {
	prefix := auditSharePrefix(share)
	request := driver.NoteRequest{Kind: auditQueueKind, From: prefix, To: prefix + "\x7f", Limit: most, Last: true}
	latest, err := i.store.Admin().Notes(ctx, request)
	if err != nil || len(latest) < most {
		return err
	}
	request.To, request.Limit, request.Last = latest[len(latest)-1].Key, trimPage, false
	for {
		old, err := i.store.Admin().Notes(ctx, request)
		if err != nil || len(old) == 0 {
			return err
		}
		var keys, copies []string
		for _, note := range old {
			keys = append(keys, strings.TrimPrefix(note.Key, prefix))
			copies = append(copies, note.Key)
		}
		if err := i.dropEntries(ctx, keys, copies); err != nil {
			return err
		}
	}
}

// dropEntries drops entries, and then their copies. If it fails in between, trimAuditOf finds
// the copies again.
func (i *inspector) dropEntries(ctx context.Context, keys, copies []string) error {
	if err := i.store.Admin().Drop(ctx, auditKind, keys...); err != nil {
		return err
	}
	return i.store.Admin().Drop(ctx, auditQueueKind, copies...)
}

// Validate returns an *InvalidArgumentError for each field that is not valid, joined.
func (f AuditFilter) Validate() error {
	return errors.Join(
		validateValues("queues", f.Queues, true),
		validateValues("actors", f.Actors, true),
		validateValues("what", f.What, false),
		validateText("job_id", f.JobID),
		f.Time.validate("time"),
	)
}

// selects reports whether the filter selects an entry, whatever its queue.
func (f AuditFilter) selects(e *AuditEntry) bool {
	return (len(f.Actors) == 0 || slices.Contains(f.Actors, e.Actor)) &&
		(len(f.What) == 0 || slices.Contains(f.What, e.What)) &&
		(f.JobID == "" || f.JobID == e.JobID) &&
		!e.Time.Before(f.Time.From) && (f.Time.To.IsZero() || e.Time.Before(f.Time.To))
}

func (i *inspector) Audit(ctx context.Context, filter AuditFilter, page PageRequest) (AuditPage, error) {
	limit, errLimit := page.limit()
	if err := i.check(filter.Validate(), errLimit); err != nil {
		return AuditPage{}, fmt.Errorf("reading the audit list: %w", err)
	}
	found, err := i.audit(ctx, filter, page, limit)
	if err != nil {
		return AuditPage{}, fmt.Errorf("reading the audit list: %w", err)
	}
	return found, nil
}

// audit reads the list from the latest entry on. It skips entries about other queues. Pages
// are full up to the end: short ones would reveal to a tenant how often others act.
func (i *inspector) audit(ctx context.Context, filter AuditFilter, page PageRequest, limit int) (AuditPage, error) {
	queues, err := i.resolveQueues(filter.Queues)
	if err != nil {
		return AuditPage{}, err
	}
	list, err := listDigest("audit", filter)
	if err != nil {
		return AuditPage{}, err
	}
	before, err := i.decodeCursor(ctx, list, page.Cursor)
	if err != nil {
		return AuditPage{}, err
	}
	from := ""
	if !filter.Time.From.IsZero() {
		from = filter.Time.From.UTC().Format(auditTimeLayout)
	}
	if to := filter.Time.To; before == "" && !to.IsZero() {
		before = to.UTC().Format(auditTimeLayout)
	}
	request := driver.NoteRequest{Kind: auditKind, From: from, To: before, Limit: limit + 1, Last: true}
	if len(filter.Actors)+len(filter.What)+len(filter.JobID) > 0 {
		request.Limit = max(request.Limit, trimPage) // it may select few of many
	}
	prefix := ""
	if len(queues) == 1 && queues[0] != "" { // has a share of its own
		prefix = auditSharePrefix(queues[0])
		request.Kind, request.From, request.To = auditQueueKind, prefix+from, prefix+cmp.Or(before, "\x7f")
	}
	found := AuditPage{Entries: []AuditEntry{}}
	for {
		notes, err := i.store.Admin().Notes(ctx, request)
		if err != nil {
			return AuditPage{}, err
		}
		for _, note := range notes {
			if len(found.Entries) == limit {
				found.Next, err = i.encodeCursor(ctx, list, strings.TrimPrefix(request.To, prefix))
				return found, err
			}
			request.To = note.Key
			note.Key = strings.TrimPrefix(note.Key, prefix)
			if entry := i.decodeEntry(ctx, note); entry != nil && isNamed(queues, entry.Queue) && filter.selects(entry) {
				found.Entries = append(found.Entries, *entry)
			}
		}
		if len(notes) < request.Limit {
			return found, nil
		}
	}
}

// decodeEntry decodes an entry. It returns nil if that is not possible.
func (i *inspector) decodeEntry(ctx context.Context, note driver.Note) *AuditEntry {
	var entry AuditEntry
	if err := json.Unmarshal(note.Value, &entry); err != nil {
		logUnreadableNote(ctx, note, err)
		return nil
	}
	if n := i.refusals.latest(entry, note); n > entry.Refused {
		entry.Refused = n
	}
	return &entry
}
