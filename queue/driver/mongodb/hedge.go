package mongodb

import (
	"context"
	"sync"
	"time"

	"github.com/mongodb/amboy/internal/contain"
)

// A server that has failed does not answer, and neither does a connection that a firewall has dropped. A client that
// waits for the answer does not ask the server that has become primary since. So a query of a claim, and one for work,
// is sent again, beside the first one, if it takes much longer than queries usually do. The first answer counts. So
// nothing is lost if the server is only slow, and its load does not grow for long: slow answers make the next queries
// wait for longer.

const (
	// hedgeAfter is the least time after which a query is sent again.
	hedgeAfter = time.Second
	// hedgeFactor is how many times as long as the longest query of late one must take to be sent again.
	hedgeFactor = 20
	// maxHedged is the maximum number of times that a query is sent.
	maxHedged = 5
)

// answerTimes remembers how long queries took of late.
type answerTimes struct {
	mu      sync.Mutex
	longest time.Duration // which each query makes shorter, unless it took longer
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

// hedge calls a function that reads, and calls it again, at the same time, while there is no answer. It returns the
// first answer without an error. If all calls fail, it returns the last error. A panic is an error. No call outlasts it.
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
