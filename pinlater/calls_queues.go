package pinlater

import (
	"context"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue/driver"
)

// exists returns an exception for a queue that was not made.
func (s *Server) exists(ctx context.Context, queueName string) error {
	exists, err := s.names.exists(ctx, queueName)
	if err == nil && !exists {
		err = exception(wire.ErrorCode_QUEUE_NOT_FOUND, "Queue not found: %s", short(queueName))
	}
	return err
}

// stored returns the name of a queue in the store.
func (s *Server) stored(queueName string) string { return s.opts.QueuePrefix + queueName }

func (s *Server) createQueue(ctx context.Context, a *wire.PinLaterCreateQueueArgs) (thrift.TStruct, error) {
	switch {
	case a.Name == absentName:
		return nil, internal("name is missing")
	case !validQueueName.MatchString(a.Name):
		return nil, exception(wire.ErrorCode_QUEUE_NAME_INVALID, "Invalid queue name: %s", short(a.Name))
	case len(a.Name) > maxQueueName:
		return nil, exception(wire.ErrorCode_QUEUE_NAME_TOO_LONG, "Queue name must have at most %d characters: %s", maxQueueName, short(a.Name))
	}
	return &wire.PinLaterCreateQueueResult{}, s.names.create(ctx, a.Name)
}

func (s *Server) deleteQueue(ctx context.Context, a *wire.PinLaterDeleteQueueArgs) (thrift.TStruct, error) {
	if !isPassword(a.Password, s.opts.AdminPasswordHash) {
		return nil, exception(wire.ErrorCode_PASSWORD_INVALID, "Invalid admin password.")
	}
	if !isQueueName(a.Name) {
		return &wire.PinLaterDeleteQueueResult{}, nil // there is no such queue
	}
	leave, err := admit(ctx, s.reads)
	if err != nil {
		return nil, err
	}
	defer leave()
	// The list comes first, so that no job is put after its queue was emptied. A queue that is
	// not listed is emptied too: an earlier call may have failed after that.
	if err = s.names.drop(ctx, a.Name); err == nil {
		err = s.empty(ctx, a.Name)
	}
	return &wire.PinLaterDeleteQueueResult{}, err
}

// empty deletes all jobs of a queue.
func (s *Server) empty(ctx context.Context, queueName string) error {
	for {
		var some []*driver.Record
		err := s.find(ctx, selection{queue: queueName}, func(r *driver.Record) (bool, error) {
			some = append(some, r)
			return len(some) < pageSize, nil
		})
		if err != nil || len(some) == 0 {
			return err
		}
		if _, err = s.remove(ctx, queueName, some); err != nil {
			return err
		}
	}
}

func (s *Server) getQueueNames(ctx context.Context, _ *wire.PinLaterGetQueueNamesArgs) (thrift.TStruct, error) {
	names, err := s.names.all(ctx)
	if names == nil {
		names = []string{}
	}
	return &wire.PinLaterGetQueueNamesResult{Success: names}, err
}
