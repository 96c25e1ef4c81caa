package mongodb

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/internal/contain"
)

// The driver sends the updates and inserts of jobs as plain commands. They have a time
// limit on the server, because a write that meets an uncommitted document or unique key
// waits there for the other transaction, however long that is open. And they are not
// retryable writes, which cost the server another document each: before a statement is
// repeated, the revision of its document shows whether it was stored.

const (
	// batchLimit is the time limit of a command with several statements. If it ends, they are
	// sent in smaller commands, or one by one, so that only the one that waits is held up.
	batchLimit = 2 * time.Second
	// singleLimit is the time limit of a command with one statement.
	singleLimit = time.Second
	// atOnce is the maximum number of such commands at once.
	atOnce = 16
)

const (
	// maxCommandSize is the size of the statements from which a command gets no more.
	// Servers accept commands a little larger than the largest document.
	maxCommandSize = 8 << 20
	// maxStatements is a server's limit for the statements of a command.
	maxStatements = 100_000
)

// answer is the answer to commands that were run.
type answer struct {
	// n is the number of documents that were inserted, or that a filter matched.
	n int
	// refused holds the errors of statements.
	refused []mongo.WriteError
	// unacknowledged is set if the majority has not acknowledged the writes.
	unacknowledged error
}

// statement is one statement of an update command.
func statement(filter bson.D, update any) bson.D {
	return bson.D{{Key: "q", Value: filter}, {Key: "u", Value: update}}
}

// forAll makes a statement change all documents that its filter selects.
func forAll(statement bson.D) bson.D { return append(statement, bson.E{Key: "multi", Value: true}) }

// kindOfWrite is a command that writes.
type kindOfWrite struct{ name, statements string }

var (
	updating  = kindOfWrite{"update", "updates"}
	inserting = kindOfWrite{"insert", "documents"}
)

// send sends the statements of a command on the jobs, in several commands if they are too
// large for one. If it fails, some of them may have been run. No limit is 0.
func (d *Driver) send(ctx context.Context, kind kindOfWrite, statements []bson.Raw, ordered bool, limit time.Duration) (*answer, error) {
	all := &answer{}
	for from := 0; from < len(statements); {
		to, size := from, 0
		for to < len(statements) && to-from < maxStatements && (to == from || size+len(statements[to]) <= maxCommandSize) {
			size += len(statements[to])
			to++
		}
		part, err := d.sendOne(ctx, kind, statements[from:to], ordered, limit)
		if err != nil {
			return nil, err
		}
		all.n += part.n
		for _, e := range part.refused {
			e.Index += from
			all.refused = append(all.refused, e)
		}
		all.unacknowledged = errors.Join(all.unacknowledged, part.unacknowledged)
		if ordered && len(all.refused) > 0 {
			break
		}
		from = to
	}
	return all, nil
}

func (d *Driver) sendOne(ctx context.Context, kind kindOfWrite, statements []bson.Raw, ordered bool, limit time.Duration) (*answer, error) {
	command := bson.D{
		{Key: kind.name, Value: d.jobs.Name()},
		{Key: kind.statements, Value: statements},
		{Key: "ordered", Value: ordered},
	}
	if mongo.SessionFromContext(ctx) == nil {
		// In a transaction the commit has the write concern.
		command = append(command, bson.E{Key: "writeConcern", Value: field("w", "majority")})
	}
	limited, byContext := ctx, false
	if configured := d.client.Timeout(); limit > 0 && configured != nil && *configured > 0 {
		// The client library derives the limit of each command from the context.
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
		byContext = true
	} else if limit > 0 {
		command = append(command, bson.E{Key: "maxTimeMS", Value: limit.Milliseconds()})
	}
	raw, err := d.jobs.Database().RunCommand(limited, command).Raw()
	if byContext && (mongo.IsTimeout(err) || limited.Err() != nil && err != nil) && ctx.Err() == nil && !isUnacknowledged(err) {
		return nil, mongo.CommandError{Code: codeMaxTimeExpired, Name: "MaxTimeMSExpired", Message: "no answer in time", Wrapped: err}
	}
	a := &answer{}
	var failure mongo.WriteException
	switch {
	case errors.As(err, &failure):
		raw, a.refused = failure.Raw, failure.WriteErrors
		if failure.WriteConcernError != nil {
			a.unacknowledged = mongo.WriteException{WriteConcernError: failure.WriteConcernError, Labels: failure.Labels}
		}
	case err != nil:
		return nil, err
	}
	n, _ := raw.Lookup("n").AsInt64OK()
	a.n = int(n)
	return a, nil
}

// encodeStatements encodes the statements of an update command.
func encodeStatements(statements ...bson.D) ([]bson.Raw, error) {
	raws := make([]bson.Raw, len(statements))
	for i, s := range statements {
		raw, err := bson.Marshal(s)
		if err != nil {
			return nil, err
		}
		raws[i] = raw
	}
	return raws, nil
}

// eachAtOnce calls a function with 0 to n-1, several at once. If one of these calls panics, it panics too, so that
// its caller may recover.
func eachAtOnce(n int, call func(i int)) {
	var calls sync.WaitGroup
	var panicked atomic.Pointer[error]
	places := make(chan struct{}, atOnce)
	for i := range n {
		places <- struct{}{}
		calls.Go(func() {
			err := contain.Panic(func() error {
				call(i)
				return nil
			})
			if err != nil {
				panicked.Store(&err)
			}
			<-places
		})
	}
	calls.Wait()
	if err := panicked.Load(); err != nil {
		panic(*err)
	}
}

// eachQueue calls a function for each queue, several at once, and joins the errors.
func eachQueue[V any](queues map[string]V, call func(queue string, of V) error) error {
	names := slices.Collect(maps.Keys(queues))
	errs := make([]error, len(names))
	eachAtOnce(len(names), func(i int) { errs[i] = call(names[i], queues[names[i]]) })
	return errors.Join(errs...)
}

// isTimedOut reports whether a command took longer than its limit on the server before all of its
// statements were run.
func isTimedOut(err error) bool { return isPastLimit(err) && !isUnacknowledged(err) }

// isLagging reports whether all statements of a command were run, but the majority did not have
// what they wrote within the limit of the command.
func isLagging(err error) bool { return isPastLimit(err) && isUnacknowledged(err) }

func isPastLimit(err error) bool {
	var failure mongo.ServerError
	return errors.As(err, &failure) && failure.HasErrorCode(codeMaxTimeExpired)
}

// attempts calls a function that sends a command which may be repeated, until it succeeds.
// It gives up after maxFailures failures, after a failure for which no repetition helps,
// and when ctx has ended, and then returns the error of a change without an answer. too, if
// it is not nil, reports whether a repetition helps for further errors.
func attempts(ctx context.Context, send func() error, too func(error) bool) error {
	for failures := 1; ; failures++ {
		err := send()
		if err == nil {
			return nil
		}
		again := isTransient(err) || isConflict(err) || too != nil && too(err)
		if !again || failures == maxFailures || ctx.Err() != nil {
			return failed(ctx, err)
		}
	}
}

// snapshotReads calls a function that reads from a snapshot, until there is one: for a short
// time after an index was built or a collection made, servers have none.
func snapshotReads(ctx context.Context, read func() error) error {
	for round := 1; ; round++ {
		err := read()
		var failure mongo.ServerError
		if !errors.As(err, &failure) || !failure.HasErrorCode(codeSnapshotUnavailable) || round == maxRounds {
			return err
		}
		if pause(ctx, round) != nil {
			return err
		}
	}
}
