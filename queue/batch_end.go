package queue

import (
	// A process that runs the jobs of a store must know the job that ends a batch, even
	// if other processes put the batches.
	_ "github.com/mongodb/amboy/internal/batchend"
)
