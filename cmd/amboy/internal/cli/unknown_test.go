package cli_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
)

func TestQueuesShowTheKindsThatNoProcessCanRun(t *testing.T) {
	atStart(t, func(t *testing.T) {
		service := newFake()
		service.unknown = []management.UnknownJobs{{
			JobKind: management.JobKind{Type: "digest", Version: 2, Dependency: "gate", DependencyVersion: 1},
			Jobs:    management.Count{Count: 12},
		}}
		const want = `no process can run job type "digest" version 2 with dependency type "gate" version 1: 12 jobs of queue mail are waiting`
		for _, command := range [][]string{{"queues", "list"}, {"queues", "show", "mail"}} {
			got := run(t, service, command...)
			require.Zero(t, got.code, got.errOut)
			assert.Contains(t, got.out, want)
		}
	})
}

// The line said "1 jobs are", and "at least 1 jobs are".
func TestQueuesShowAKindOfOneJobThatNoProcessCanRun(t *testing.T) {
	atStart(t, func(t *testing.T) {
		service := newFake()
		service.unknown = []management.UnknownJobs{{JobKind: management.JobKind{Type: "digest"}, Jobs: management.Count{Count: 1}}}
		assert.Contains(t, run(t, service, "queues", "show", "mail").out, ": 1 job of queue mail is waiting\n")
		service.unknown[0].Jobs.More = true
		assert.Contains(t, run(t, service, "queues", "show", "mail").out, ": at least 1 job of queue mail is waiting\n")
	})
}
