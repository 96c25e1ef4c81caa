package pinlater

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// idMark is the mark in the store that counts local IDs: a mark is raised atomically, and
// never lowered. The number is stored as a time in milliseconds.
const idMark = "pinlater-local-ids"

// idBlock is how many local IDs a server reserves at a time.
const idBlock = 1000

// localIDs hands out numbers that are unique in the store.
type localIDs struct {
	raise func(ctx context.Context, to time.Time) (last time.Time, err error)

	mu sync.Mutex
	// next and end bound the reserved numbers: next is the first, end is beyond the last.
	next, end int64
}

// take returns n numbers, in ascending order unless several servers reserve some at the same
// time.
func (l *localIDs) take(ctx context.Context, n int) (ids []int64, err error) {
	for {
		ids = l.takeReserved(ids, n)
		if len(ids) == n {
			return ids, nil
		}
		if err = l.reserve(ctx, int64(max(idBlock, n-len(ids)))); err != nil {
			return nil, fmt.Errorf("reserving local IDs: %w", err)
		}
	}
}

func (l *localIDs) takeReserved(ids []int64, n int) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; len(ids) < n && l.next < l.end; l.next++ {
		ids = append(ids, l.next)
	}
	return ids
}

// reserve reserves up to n numbers, or fewer if another server was faster.
func (l *localIDs) reserve(ctx context.Context, n int64) error {
	last, err := l.raise(ctx, time.Time{})
	if err != nil {
		return err
	}
	to := numberOf(last) + n
	last, err = l.raise(ctx, time.UnixMilli(to))
	if err != nil {
		return err
	}
	from := numberOf(last) // what lies between is reserved by this call alone
	l.mu.Lock()
	defer l.mu.Unlock()
	if from < to && l.next >= l.end {
		l.next, l.end = from+1, to+1
	}
	return nil
}

func numberOf(mark time.Time) int64 {
	if mark.IsZero() {
		return 0
	}
	return mark.UnixMilli()
}
