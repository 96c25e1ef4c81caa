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

// RegisterDefaultJobs registers the types of this package's jobs, "shell" and
// "group". Nothing else does: a queue that stores jobs refuses them before. Calls after
// the first do nothing. It is safe for concurrent use.
func RegisterDefaultJobs() { registerDefaultJobs() }
