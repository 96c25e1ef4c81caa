package drivertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// historyCount is the number of histories of each kind.
func historyCount() int {
	if *long {
		return 150
	}
	return 4
}

// historySteps is the number of calls in a history.
const historySteps = 60

// alone returns the test itself.
func (f *fixture) alone() *fixture { return f }

// runHistories makes random calls on drivers and on the model, and compares the results.
// It stops at the first history that fails. Each history runs on the fixture that prepare
// returns for a new one.
func runHistories(t *testing.T, harness Harness, prepare func(f *fixture) *fixture) {
	for seed := range historyCount() {
		passed := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			h := newHistory(prepare(newFixture(t, harness)), uint64(seed))
			for range historySteps {
				h.step()
				h.compare()
			}
		})
		if !passed {
			return
		}
	}
}

// historyQueues are the queues of a history. The first is used most often.
var historyQueues = []string{"a", "", "b"}

// history is a sequence of random calls.
type history struct {
	*fixture
	models map[string]*model // by queue
	random *rand.Rand
	// clock is the time of claims. It is in the middle of an hour, and other times are
	// whole hours after the start, so that no two times are close.
	clock   time.Time
	stale   []*driver.Record // under leases that were lost
	added   int
	forgets int // the number of distinct forget times used
}

func newHistory(f *fixture, seed uint64) *history {
	f.unchecked = true // it is compared with the model
	h := &history{
		fixture: f,
		models:  map[string]*model{},
		random:  rand.New(rand.NewPCG(seed, seed)), //nolint:gosec // It chooses cases, not secrets.
		clock:   f.after(0.5),
	}
	for _, queue := range historyQueues {
		h.models[queue] = newModel()
	}
	return h
}

// step makes one call. An action that is listed more often is more likely.
func (h *history) step() {
	actions := []func(){
		h.insertSome, h.insertSome, h.insertSome, h.insertSome,
		h.claimSome, h.claimSome, h.claimSome, h.claimSome, h.claimSome,
		h.endOne, h.endOne, h.endOne, h.endOne,
		h.endByHand,
		h.releaseOne,
		h.retryOne, h.retryOne,
		h.endRetryOne,
		h.extendOne,
		h.recoverSome,
		h.saveOne,
		h.progressOne,
		h.writeStale,
		h.controlOne,
		h.actOnOne, h.actOnOne, h.actOnOne,
		h.actOnSome,
		h.forgetSome,
		h.advance,
	}
	if h.driver.Features().Durable && h.harness.Reopen != nil {
		actions = append(actions, h.reopenStore)
	}
	actions[h.random.IntN(len(actions))]()
}

// pick chooses one of several. ok is false if there are none.
func pick[T any](random *rand.Rand, from []T) (chosen T, ok bool) {
	if len(from) == 0 {
		return chosen, false
	}
	return from[random.IntN(len(from))], true
}

// someQueue chooses a queue and makes it the fixture's.
func (h *history) someQueue() *model {
	h.queue = historyQueues[max(0, h.random.IntN(5)-2)]
	return h.models[h.queue]
}

// subset chooses some of the names.
func (h *history) subset(names []string, probability float64) []string {
	var chosen []string
	for _, name := range names {
		if h.random.Float64() < probability {
			chosen = append(chosen, name)
		}
	}
	return chosen
}

// soon returns the zero time or a whole number of hours after the clock.
func (h *history) soon(probability float64) time.Time {
	if h.random.Float64() >= probability {
		return time.Time{}
	}
	return h.clock.Add(time.Duration(h.random.IntN(3))*time.Hour + 30*time.Minute)
}

// clockTime formats a time for the log of a history.
func clockTime(t time.Time) string {
	if t.IsZero() {
		return "no time"
	}
	return t.Format("15:04:05.000")
}

// forgetAt returns the zero time or a time that no other record has.
func (h *history) forgetAt() time.Time {
	if h.random.IntN(2) == 0 {
		return time.Time{}
	}
	h.forgets++
	return h.start.Add(time.Duration(h.random.IntN(6))*time.Hour + time.Duration(h.forgets)*time.Millisecond)
}

var (
	historyScopes = []string{"s0", "s1", "s2", "s3"}
	historyLimits = []string{amboy.LimitScope("two", 2), amboy.LimitScope("three", 3)}
	historyTags   = []string{"t0", "t1"}
	historyKeys   = []string{"", "", "", "", "k0", "k1"}
	historyUntil  = []amboy.UniqueUntil{
		amboy.UniqueUntilEnded, amboy.UniqueUntilStarted, amboy.UniqueUntilFailed, amboy.UniqueUntilForgotten,
	}
)

// randomSpec describes a job of a queue. Its edges may name no job, or the job itself.
// Unless isNew is set, its ID may be taken.
func (h *history) randomSpec(m *model, isNew bool) spec {
	id := fmt.Sprint(1 + h.random.IntN(h.added+1))
	if isNew || m.headless[id] {
		h.added++
		id = fmt.Sprint(h.added)
	}
	s := spec{
		id:        id,
		priority:  h.random.IntN(3),
		waitUntil: h.soon(0.2),
		scopes:    h.subset(historyScopes, 0.25),
		retryable: h.random.IntN(3) == 0,
		tags:      h.subset(historyTags, 0.3),
	}
	s.enqueueScopes = h.subset(s.scopes, 0.3)
	if h.random.IntN(3) == 0 {
		// Drivers differ in whether an excluded record keeps its turn for a scope.
		s.version, s.enqueueScopes = newVersion.Version, s.scopes
	} else if h.driver.Features().Limits {
		s.scopes = append(s.scopes, h.subset(historyLimits, 0.3)...)
	}
	s.uniqueKey, _ = pick(h.random, historyKeys)
	if s.uniqueKey != "" {
		s.uniqueUntil, _ = pick(h.random, historyUntil)
	}
	if s.uniqueUntil != amboy.UniqueUntilStarted {
		s.dispatchBy = h.soon(0.15)
	}
	if s.dispatchBy.Before(s.waitUntil) && !s.dispatchBy.IsZero() {
		s.dispatchBy = s.waitUntil.Add(time.Hour)
	}
	for range h.random.IntN(9) / 4 {
		edge := fmt.Sprint(h.random.IntN(h.added + 1))
		if j, ok := pick(h.random, m.attempts); ok && h.random.IntN(3) > 0 {
			edge = j.id
		}
		// With a duplicate in a cycle the order of the others would be undefined.
		isDuplicate := edge == id && m.byID[id] != nil
		if !slices.Contains(s.edges, edge) && !m.headless[edge] && !isDuplicate {
			s.edges = append(s.edges, edge)
		}
	}
	return s
}
