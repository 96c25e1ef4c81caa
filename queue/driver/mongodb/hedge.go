package mongodb

import (
	"context"
	"sync"
	"time"

	"github.com/mongodb/amboy/internal/contain"
)

// A client that waits for an answer of a server that has failed, or on a connection that a firewall has dropped,
// does not notice that another server has become primary. So if a query of a claim or of Work takes much longer
// than such queries usually do, it is sent again beside the first one, and the first answer counts. Nothing is lost
// if the server is only slow. Its load grows for a short time only, because slow answers raise the time after which
// the next queries are sent again.

const (
	// hedgeAfter is the minimum time after which a query is sent again.
	hedgeAfter = time.Second
	// hedgeFactor is that time as a multiple of the longest recent query.
	hedgeFactor = 20
	// maxHedged is the maximum number of times that a query is sent.
	maxHedged = 5
)

// answerTimes remembers how long recent queries took.
type answerTimes struct {
	mu      sync.Mutex
	longest time.Duration // reduced by each query that took less
}

func (a *answerTimes) observe(took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.longest = max(took, a.longest*7/8)
}

// patience returns how long to wait for an answer before a query is sent again.
func (a *answerTimes) patience() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(hedgeAfter, hedgeFactor*a.longest)
}

// hedge calls a function that reads, and calls it again, at the same time, while there is no answer. It
// returns the first answer without an error. If all calls fail, it returns the last error. A panic is an
// error. No call outlasts it.
func hedge[T any](ctx context.Context, times *answerTimes, read func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
		took  time.Duration
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, maxHedged)
	sent, open := 0, 0
	send := func() {
		sent++
		open++
		began := time.Now()
		calls.Go(func() {
			var value T
			err := contain.Panic(func() (err error) {
				value, err = read(ctx)
				return err
			})
			answers <- answer{value, err, time.Since(began)}
		})
	}
	send()
	again := time.NewTimer(times.patience())
	defer again.Stop()
	for {
		select {
		case a := <-answers:
			open--
			if a.err == nil {
				times.observe(a.took)
			}
			if a.err == nil || open == 0 {
				return a.value, a.err
			}
		case <-again.C:
			send()
			if sent < maxHedged {
				again.Reset(times.patience())
			}
		}
	}
}
