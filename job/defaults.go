package job

import (
	"sync"

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
