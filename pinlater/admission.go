package pinlater

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"
)

// admit waits until a call may read the bodies of jobs. leave must be called at its end.
func admit(ctx context.Context, to *semaphore.Weighted) (leave func(), err error) {
	if err = to.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting for other calls: %w", err)
	}
	return func() { to.Release(1) }, nil
}
