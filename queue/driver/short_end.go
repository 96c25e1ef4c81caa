package driver

import (
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

// ErrTooLarge is wrapped by the error of a record that was ended with a short error,
// because its own end was too large for the store.
var ErrTooLarge = errors.New("too large for the store; the job was ended as failed with a short error")

func sizeOf(metadata map[string]string) (size int) {
	for key, value := range metadata {
		size += len(key) + len(value)
	}
	return size
}

// ShortEnd returns a replacement for the end of a record that is too large for a store;
// tooLarge is the store's error. It has no body: the stored body stays.
func ShortEnd(ended *Record, tooLarge error) *Record {
	err := fmt.Errorf("the job's outcome can't be stored: %w", tooLarge)
	short := *ended
	short.Job, short.Result, short.Progress = registry.Body{}, nil, nil
	if sizeOf(short.Metadata) > amboy.MaxResultBytes {
		short.Metadata = nil
	}
	short.RetryInfo.NeedsRetry = false
	status := amboy.JobStatusInfo{DroppedErrors: short.Status.DroppedErrors + len(short.Status.Attempts)}
	status.AddError(err, short.RetryInfo.CurrentAttempt, short.TimeInfo.End)
	short.Status.Errors, short.Status.ErrorCount = status.Errors, status.ErrorCount
	short.Status.Attempts, short.Status.DroppedErrors = status.Attempts, status.DroppedErrors
	return &short
}
