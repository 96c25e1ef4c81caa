package pinlater

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// maxQueueName is the maximum length of the name of a queue.
const maxQueueName = 58

var validQueueName = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// isQueueName reports whether a queue with a name can be made.
func isQueueName(name string) bool {
	return validQueueName.MatchString(name) && len(name) <= maxQueueName
}

// queuesKind is the kind of the notes that list the queues that exist.
const queuesKind = "pinlater-queues"

const (
	// queueLifetime is how long the note of a queue is valid: for ever.
	queueLifetime = 100 * 365 * 24 * time.Hour
	// queueCached is how long a server believes that a queue exists.
	queueCached = time.Second
	// queuePage is how many names are read at a time.
	queuePage = 1000
)

// queueNames are the queues that were made.
type queueNames struct {
	admin  driver.Admin
	prefix string
	now    func() time.Time

	mu sync.Mutex
	// until is how long queues are known to exist.
	until map[string]time.Time
}

// create makes a queue. It does nothing if the queue exists.
func (q *queueNames) create(ctx context.Context, name string) error {
	now := q.now()
	note := driver.Note{Kind: queuesKind, Key: q.prefix + name, Value: []byte("{}"), Until: now.Add(queueLifetime)}
	if _, _, err := q.admin.KeepNew(ctx, note, now); err != nil {
		return fmt.Errorf("making queue %q: %w", name, err)
	}
	return nil
}

// drop removes a queue from the list.
func (q *queueNames) drop(ctx context.Context, name string) error {
	if err := q.admin.Drop(ctx, queuesKind, q.prefix+name); err != nil {
		return fmt.Errorf("deleting queue %q: %w", name, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.until, name)
	return nil
}

// exists reports whether a queue exists. A queue that another server has deleted may exist
// for a second longer.
func (q *queueNames) exists(ctx context.Context, name string) (bool, error) {
	if !isQueueName(name) {
		return false, nil
	}
	now := q.now()
	q.mu.Lock()
	known := now.Before(q.until[name])
	q.mu.Unlock()
	if known {
		return true, nil
	}
	key := q.prefix + name
	notes, err := q.admin.Notes(ctx, driver.NoteRequest{Kind: queuesKind, From: key, To: key + "\x00", Limit: 1})
	if err != nil {
		return false, fmt.Errorf("finding queue %q: %w", name, err)
	}
	if len(notes) == 0 {
		return false, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.until[name] = now.Add(queueCached)
	return true, nil
}

// all returns the names of all queues.
func (q *queueNames) all(ctx context.Context) (names []string, err error) {
	request := driver.NoteRequest{Kind: queuesKind, From: q.prefix, To: q.prefix + "{", Limit: queuePage} // { is beyond z
	for {
		notes, err := q.admin.Notes(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("listing queues: %w", err)
		}
		for _, note := range notes {
			// A server with another prefix has other names.
			if name := note.Key[len(q.prefix):]; validQueueName.MatchString(name) {
				names = append(names, name)
			}
		}
		if len(notes) < request.Limit {
			return names, nil
		}
		request.From = notes[len(notes)-1].Key + "\x00"
	}
}
