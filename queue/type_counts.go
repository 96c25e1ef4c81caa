package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/engine"
)

// TypeCounts are the numbers of jobs that have not ended, by queue and type.
type TypeCounts struct {
	// At is when the jobs were counted; zero if they were not.
	At time.Time `json:"at"`
	// Counts are sorted by queue and type. If they were stored, they are the 500 with the
	// most jobs.
	Counts []driver.TypeCount `json:"counts"`
	// Others count the jobs that are not in Counts, by type, for all queues. Their Queue is
	// empty. The Type of the last one is empty if it stands for several types.
	Others []driver.TypeCount `json:"others,omitempty"`
}

const (
	typeCountsKind = "type counts"
	typeCountsKey  = "latest" // the note of the latest TypeCounts
	typeCountsTurn = "next"   // the note whose Until is when a process may count again

	// maxTypeCounts bounds TypeCounts.Counts, and maxOtherTypes TypeCounts.Others.
	maxTypeCounts, maxOtherTypes = 500, 100
	// typeCountTimeout is the maximum duration of a count.
	typeCountTimeout = time.Minute
	// A count is repeated after typeCountPause times as long as it took, but not before
	// minTypeCountPause has passed, and after maxTypeCountPause at the latest.
	typeCountPause                       = 50
	minTypeCountPause, maxTypeCountPause = time.Minute, 15 * time.Minute
	// keepTypeCounts is how long the note is kept.
	keepTypeCounts = 24 * time.Hour
)

// TypeCounts returns the numbers of jobs that have not ended, by queue and type. Jobs in memory
// are counted now. A database would have to read all of these jobs, so TypeCounts reads the
// latest counts that any process stored there, and returns none if there are none. If they are
// old, one of the processes with open queues counts again in the background, for at most 2% of
// the time. TypeCounts blocks as long as the store takes, and returns the store's errors.
func (s *Store) TypeCounts(ctx context.Context) (TypeCounts, error) {
	if s.driver == nil || !s.driver.Features().Durable {
		now := s.now()
		counts, err := s.admin.CountTypes(ctx)
		if err != nil {
			return TypeCounts{}, err
		}
		return TypeCounts{At: now, Counts: counts}, nil
	}
	counts, isDue, err := storedTypeCounts(ctx, s.driver, s.now())
	if err == nil && isDue && s.countTypes != nil {
		s.countTypes()
	}
	return counts, err
}

// storedTypeCounts reads the latest counts, and reports whether it is time to count again.
func storedTypeCounts(ctx context.Context, store driver.Driver, now time.Time) (counts TypeCounts, isDue bool, err error) {
	isDue = true
	notes, err := store.Notes(ctx, driver.NoteRequest{Kind: typeCountsKind, Limit: 2})
	for _, note := range notes {
		switch note.Key {
		case typeCountsTurn:
			isDue = engine.IsTurnOver(note, now)
		case typeCountsKey:
			err = json.Unmarshal(note.Value, &counts)
		}
	}
	if err != nil {
		return TypeCounts{}, isDue, fmt.Errorf("reading the numbers of jobs by type: %w", err)
	}
	return counts, isDue, nil
}

// countTypes counts in the background, unless this process already does.
func countTypes(e *engine.Engine) {
	if !e.CountingTypes.CompareAndSwap(false, true) {
		return
	}
	e.RunInBackground(func(ctx context.Context) {
		defer e.CountingTypes.Store(false)
		ctx, cancel := context.WithTimeout(ctx, typeCountTimeout)
		defer cancel()
		e.Report("could not count jobs by type", takeTypeCountTurn(ctx, e))
	})
}

// takeTypeCountTurn counts and stores the result, unless another process has the turn.
func takeTypeCountTurn(ctx context.Context, e *engine.Engine) error {
	begin := e.Now()
	turn := driver.Note{Kind: typeCountsKind, Key: typeCountsTurn, Until: begin.Add(2 * typeCountTimeout)}
	mine, err := e.TakeTurn(ctx, turn, begin)
	if err != nil || !mine {
		return err
	}
	started := e.SinceStart()
	all, err := e.Driver.CountTypes(ctx)
	if err != nil {
		return err
	}
	took := e.SinceStart() - started
	counted := driver.Note{Kind: typeCountsKind, Key: typeCountsKey, Until: begin.Add(keepTypeCounts)}
	for most := maxTypeCounts; counted.Value == nil || len(counted.Value) > driver.MaxNoteBytes; most /= 2 {
		counted.Value, err = json.Marshal(boundTypeCounts(begin, all, most))
		if err != nil {
			return err
		}
	}
	turn.Until = e.Now().Add(min(max(typeCountPause*took, minTypeCountPause), maxTypeCountPause))
	return e.Driver.Keep(ctx, counted, turn)
}

// boundTypeCounts keeps the counts with the most jobs, and adds up the others.
func boundTypeCounts(at time.Time, all []driver.TypeCount, most int) TypeCounts {
	byTotal := slices.SortedStableFunc(slices.Values(all), func(a, b driver.TypeCount) int { return cmp.Compare(b.Total(), a.Total()) })
	bounded := TypeCounts{At: at, Counts: byTotal[:min(most, len(byTotal))]}
	place := map[string]int{}
	for _, count := range byTotal[len(bounded.Counts):] {
		n, found := place[count.Type]
		switch {
		case found:
		case len(bounded.Others) < maxOtherTypes-1:
			n = len(bounded.Others)
			place[count.Type] = n
			bounded.Others = append(bounded.Others, driver.TypeCount{Type: count.Type})
		default:
			if len(bounded.Others) < maxOtherTypes {
				bounded.Others = append(bounded.Others, driver.TypeCount{})
			}
			n = maxOtherTypes - 1
		}
		bounded.Others[n].Add(&count)
	}
	slices.SortFunc(bounded.Counts, func(a, b driver.TypeCount) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type))
	})
	return bounded
}
