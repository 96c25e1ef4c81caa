package job

import (
	"sync"
	"sync/atomic"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

var registerDefaultJobs = sync.OnceFunc(func() {
	registry.AddJobType(shellType.Name, func() amboy.Job { return NewShellJobInstance() })
	registry.AddJobType(groupType.Name, func() amboy.Job { return NewGroup("") })
})

// RegisterDefaultJobs registers the job types of this package, "shell" and "group". Without
// it, queues that store jobs refuse them. Only the first call has an effect. It is safe for
// concurrent use.
func RegisterDefaultJobs() { registerDefaultJobs() }

var lastNumber atomic.Int64

// GetNumber returns 1 for the first call in this process, and one more for each later
// call. It serves to make job IDs unique. It is safe for concurrent use.
func GetNumber() int { return int(lastNumber.Add(1)) }
