package presence

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Soon is the delay after which an opened or closed queue is announced, and the least time
// between two reports that callers ask for.
const Soon = time.Second

var lastID atomic.Int64

// NewID returns an ID for an owner of jobs. It is unique among the processes that share a
// store.
func NewID(kind string) string {
	return fmt.Sprintf("%s.%s.%d.%d", kind, hostname(), os.Getpid(), lastID.Add(1))
}

// Here describes this process under the ID that owns its jobs.
func Here(id string, started, now time.Time, queues []Queue) Process {
	slices.SortFunc(queues, func(a, b Queue) int { return strings.Compare(a.Name, b.Name) })
	return Process{ID: id, Host: hostname(), PID: os.Getpid(), Started: started, Seen: now, Queues: queues}
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown-host"
	}
	return host
}
