package web

import (
	"net/http"
	"sync"
	"time"
)

// WaitGrace is the time for an answer after a request has waited.
const WaitGrace = 30 * time.Second

// LetWait lets a request wait for a time. The time limits of the server are for clients that send or
// read slowly. If they can't be set, the server has none.
func LetWait(w http.ResponseWriter, wait time.Duration) {
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Time{})
	_ = connection.SetWriteDeadline(time.Now().Add(wait + WaitGrace))
}

// Waiting counts the requests that wait, by client. It is safe for concurrent use.
type Waiting struct {
	most    int
	mu      sync.Mutex
	waiting map[string]int
}

// NewWaiting returns a count that allows a number of requests for each client.
func NewWaiting(most int) *Waiting { return &Waiting{most: most, waiting: map[string]int{}} }

// Enter counts a waiting request of a client. leave must be called when it no longer waits.
// Enter returns ErrTooManyWaitingOfClient if too many wait.
func (w *Waiting) Enter(client string) (leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[client] >= w.most {
		return nil, ErrTooManyWaitingOfClient
	}
	w.waiting[client]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waiting[client]--
		if w.waiting[client] == 0 {
			delete(w.waiting, client)
		}
	}, nil
}
