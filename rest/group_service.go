package rest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/rest/internal/web"
)

// ManagementGroupService is like an AbortablePoolManagementService, for the pools of all
// queues of a group (see Handler). It is safe for concurrent use.
type ManagementGroupService struct{ group amboy.QueueGroup }

// NewManagementGroupService returns a service for a group. If the group is nil, the
// service answers with status 503.
func NewManagementGroupService(group amboy.QueueGroup) *ManagementGroupService {
	return &ManagementGroupService{group: group}
}

// Handler serves the routes of an AbortablePoolManagementService for all queues that are
// open in this process and whose runner can abort jobs. Jobs of different queues may have
// the same ID. The "group" of a running job is the first queue, by name, in which a job
// with that ID runs. Aborting an ID aborts the job in all queues, and is answered with 404
// if it runs in none. Handler opens queues only if the group does not implement
// queue.OpenQueues.
func (s *ManagementGroupService) Handler(opts ...Option) http.Handler {
	running := &runningJobs{pools: s.pools, notRunning: http.StatusNotFound}
	return running.handler(opts)
}

var errNoGroup = &web.Failure{Status: http.StatusServiceUnavailable, Text: "the service has no queue group"}

// pools returns the pools of the open queues that can abort jobs, by the name of the queue.
func (s *ManagementGroupService) pools(ctx context.Context) (map[string]amboy.AbortableRunner, error) {
	if s.group == nil {
		return nil, errNoGroup
	}
	queues, err := s.open(ctx)
	pools := map[string]amboy.AbortableRunner{}
	for name, q := range queues {
		if pool, ok := q.Runner().(amboy.AbortableRunner); ok {
			pools[name] = pool
		}
	}
	return pools, err
}

func (s *ManagementGroupService) open(ctx context.Context) (map[string]amboy.Queue, error) {
	if group, ok := s.group.(queue.OpenQueues); ok {
		return group.OpenQueues(), nil
	}
	queues := map[string]amboy.Queue{}
	for _, name := range s.group.Queues(ctx) {
		q, err := s.group.Get(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("getting queue %q of a group: %w", name, err)
		}
		queues[name] = q
	}
	return queues, nil
}
