package mongodb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/notes"
)

// noteStore is the collection of the notes. No change stream follows it, so notes wake no
// subscribers.
type noteStore struct {
	*mongo.Collection
	// indexed is true once this process has created the index.
	indexed atomic.Bool
}

// noteDocument is a stored note.
type noteDocument struct {
	ID    string    `bson:"_id"` // see noteKind
	Value []byte    `bson:"value,omitempty"`
	Until time.Time `bson:"until"`
	// By identifies the call of KeepNew that wrote the note.
	By primitive.ObjectID `bson:"by,omitempty"`
}

// noteKind returns the prefix of the _ids of the notes of a kind, before their keys. The
// kind is quoted, so that _ids are unique. Servers compare strings by their bytes, so the
// index of _id yields the keys of a kind in order.
func noteKind(kind string) string { return fmt.Sprintf("%q/", kind) }

func noteID(kind, key string) string { return noteKind(kind) + key }

func newNoteDocument(n driver.Note) noteDocument {
	return noteDocument{ID: noteID(n.Kind, n.Key), Value: n.Value, Until: n.Until.UTC().Truncate(time.Millisecond)}
}

// note returns the stored note of a kind.
func (n noteDocument) note(kind string) driver.Note {
	return driver.Note{Kind: kind, Key: strings.TrimPrefix(n.ID, noteKind(kind)), Value: n.Value, Until: n.Until.UTC()}
}

// Keep implements driver.Driver. It sends one command, unless the notes exceed the size
// of a command.
func (d *Driver) Keep(ctx context.Context, all ...driver.Note) error {
	for _, n := range all {
		if err := n.Validate(); err != nil {
			return err
		}
	}
	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if len(all) == 0 {
		return nil
	}
	models := make([]mongo.WriteModel, len(all))
	for i, n := range all {
		doc := newNoteDocument(n)
		models[i] = mongo.NewReplaceOneModel().SetFilter(field("_id", doc.ID)).SetReplacement(doc).SetUpsert(true)
	}
	err = d.onNotes(plain(ctx), func(ctx context.Context) error {
		_, failure := d.notes.BulkWrite(ctx, models)
		return failure
	})
	if err != nil {
		return fmt.Errorf("keeping %d notes, the first with key %q of kind %q: %w", len(all), all[0].Key, all[0].Kind, err)
	}
	return nil
}

// onNotes calls a function that writes notes, and repeats it if that may succeed.
// Concurrent inserts of the same note may get a duplicate key error.
func (d *Driver) onNotes(ctx context.Context, write func(ctx context.Context) error) error {
	return attempts(ctx, func() error {
		if err := d.notes.ensureIndex(ctx); err != nil {
			return err
		}
		return write(ctx)
	}, mongo.IsDuplicateKeyError)
}

// ensureIndex builds the index by which the server removes outdated notes, before the
// process writes its first note. There are few notes, so building it takes no time.
func (n *noteStore) ensureIndex(ctx context.Context) error {
	if n.indexed.Load() {
		return nil
	}
	expiry := mongo.IndexModel{Keys: ascending("until"), Options: options.Index().SetName("until").SetExpireAfterSeconds(0)}
	if _, err := n.Indexes().CreateOne(ctx, expiry); err != nil {
		return fmt.Errorf("building the index of the notes: %w", err)
	}
	n.indexed.Store(true)
	return nil
}

// KeepNew implements driver.Driver.
func (d *Driver) KeepNew(ctx context.Context, note driver.Note, now time.Time) (kept driver.Note, isNew bool, err error) {
	err = note.Validate()
	if err != nil {
		return driver.Note{}, false, err
	}
	leave, err := d.enter(ctx)
	if err != nil {
		return driver.Note{}, false, err
	}
	defer leave()
	doc := newNoteDocument(note)
	doc.By = primitive.NewObjectID()
	var found noteDocument
	err = d.onNotes(plain(ctx), func(ctx context.Context) (failure error) {
		found, failure = d.keepNew(ctx, doc, now)
		return failure
	})
	if err != nil {
		return driver.Note{}, false, fmt.Errorf("keeping new note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return found.note(note.Kind), found.By == doc.By, nil
}

// keepNew writes a note unless one exists, and returns the stored note. A note written by
// an earlier try that seemed to fail is recognized by its By field.
func (d *Driver) keepNew(ctx context.Context, doc noteDocument, now time.Time) (noteDocument, error) {
	isOver := all(field("_id", doc.ID), field("until", field("$lte", now)))
	_, err := d.notes.ReplaceOne(ctx, isOver, doc, options.Replace().SetUpsert(true))
	if !mongo.IsDuplicateKeyError(err) {
		return doc, err
	}
	var found noteDocument
	failure := d.notes.FindOne(ctx, field("_id", doc.ID)).Decode(&found)
	if errors.Is(failure, mongo.ErrNoDocuments) {
		return found, err // it was removed meanwhile; the caller tries again
	}
	if failure != nil || found.By != doc.By {
		return found, failure
	}
	// It may be rolled back until the majority has it. A write that changes nothing waits
	// for all writes before it.
	confirmed, failure := d.notes.UpdateOne(ctx, all(field("_id", doc.ID), field("by", doc.By)), field("$set", field("by", doc.By)))
	if failure == nil && confirmed.MatchedCount == 0 {
		failure = err // it was rolled back
	}
	return found, failure
}

// Replace implements driver.Driver. It repeats itself if an answer is lost: a note that was replaced
// has its new value.
func (d *Driver) Replace(ctx context.Context, note driver.Note, old []byte) (replaced bool, err error) {
	err = note.Validate()
	if err != nil {
		return false, err
	}
	leave, err := d.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	doc := newNoteDocument(note)
	hasEither := all(field("_id", doc.ID), field("value", field("$in", bson.A{storedValue(old), storedValue(doc.Value)})))
	err = d.onNotes(plain(ctx), func(ctx context.Context) error {
		result, failure := d.notes.ReplaceOne(ctx, hasEither, doc)
		replaced = failure == nil && result.MatchedCount > 0
		return failure
	})
	if err != nil {
		return false, fmt.Errorf("replacing note %q of kind %q: %w", note.Key, note.Kind, err)
	}
	return replaced, nil
}

// storedValue returns the value of a note as a filter has it: nil, for a field that does not exist, if
// it is empty.
func storedValue(value []byte) any {
	if len(value) == 0 {
		return nil
	}
	return value
}

// Notes implements driver.Driver.
func (d *Driver) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	if err := notes.CheckRequest(req); err != nil {
		return nil, err
	}
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	found, err := d.readNotes(plain(ctx), req)
	if err != nil {
		return nil, fmt.Errorf("reading the notes of kind %q: %w", req.Kind, err)
	}
	return found, nil
}

func (d *Driver) readNotes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	keys := bson.A{field("_id", withPrefix(noteKind(req.Kind)))}
	if req.From != "" {
		keys = append(keys, field("_id", field("$gte", noteID(req.Kind, req.From))))
	}
	if req.To != "" {
		keys = append(keys, field("_id", field("$lt", noteID(req.Kind, req.To))))
	}
	order := 1
	if req.Last {
		order = -1
	}
	cursor, err := d.notes.Find(ctx, field("$and", keys), options.Find().SetSort(field("_id", order)).SetLimit(int64(req.Limit)))
	if err != nil {
		return nil, err
	}
	var docs []noteDocument
	err = cursor.All(ctx, &docs)
	if err != nil {
		return nil, err
	}
	found := make([]driver.Note, len(docs))
	for i, doc := range docs {
		found[i] = doc.note(req.Kind)
	}
	return found, nil
}

// Drop implements driver.Driver.
func (d *Driver) Drop(ctx context.Context, kind string, keys ...string) error {
	leave, err := d.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if len(keys) == 0 {
		return nil
	}
	ids := make(bson.A, len(keys))
	for i, key := range keys {
		ids[i] = noteID(kind, key)
	}
	ctx = plain(ctx)
	err = attempts(ctx, func() error {
		_, failure := d.notes.DeleteMany(ctx, field("_id", field("$in", ids)))
		return failure
	}, nil)
	if err != nil {
		return fmt.Errorf("dropping %d notes of kind %q: %w", len(keys), kind, err)
	}
	return nil
}
