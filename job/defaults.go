package job

import (
	"sync"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

func init() { RegisterDefaultJobs() }

var registerDefaultJobs = sync.OnceFunc(func() {
	registry.AddJobType(shellType.Name, func() amboy.Job { return NewShellJobInstance() })
	registry.AddJobType(groupType.Name, func() amboy.Job { return NewGroup("") })
})

// RegisterDefaultJobs registers the types of this package's jobs, "shell" and
// "group". Importing the package does so too; calls after the first do nothing.
// It is safe for concurrent use.
func RegisterDefaultJobs() { registerDefaultJobs() }
