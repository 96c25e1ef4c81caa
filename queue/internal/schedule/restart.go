package schedule

import (
	"fmt"
	"time"
)

// Restartable reports whether an entry can run again: it is Finished, it is the latest with
// its ID, and no other job holds its unique key or one of its EnqueueScopes.
func (s *Schedule[J]) Restartable(e *Entry[J]) bool {
	if e.place != Finished || s.byID[e.ID] != e || s.keyHolder(e) != nil {
		return false
	}
	_, held := s.holders.Full(e.ID, e.Scopes.AtPut())
	return !held
}

// Restart makes a Restartable entry run again, after the jobs that the edges name, as Add would;
// a job that was removed since is not waited for. The entry arrives anew, takes its unique key and
// its EnqueueScopes again, and does not expire.
func (s *Schedule[J]) Restart(e *Entry[J], edges []string, now time.Time) {
	if err := s.take(e, e.Scopes.AtPut()); err != nil {
		// They are free, because the entry is Restartable.
		panic(fmt.Sprintf("schedule: job %q can't be restarted: %v", e.ID, err))
	}
	s.takeKey(e)
	s.finished.remove(e)
	s.ended--
	s.lastSeq++
	e.seq = s.lastSeq
	e.DispatchBy = time.Time{}
	e.restarted = true
	e.Edges, e.links = edges, nil
	s.link(e)
	if e.open() {
		s.setPlace(e, Waiting)
		return
	}
	s.wait(e, now)
}
