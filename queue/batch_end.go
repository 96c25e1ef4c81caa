package queue

import (
	// Whoever runs the jobs of a store must know the one that ends a batch, also where
	// others put the batches.
	_ "github.com/mongodb/amboy/internal/batchend"
)
