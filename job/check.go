package job

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
)

// refusedDefinitions holds the errors of the definitions of this process.
var refusedDefinitions struct {
	sync.Mutex
	errs []error
}

// Check returns the errors of all definitions that were refused in this process, joined; nil
// if all can be used. Call it when the service starts, or in a test: a definition in a
// package-level variable can't report its error otherwise before it is used. It does not
// block and is safe for concurrent use.
func Check() error {
	refusedDefinitions.Lock()
	defer refusedDefinitions.Unlock()
	return errors.Join(slices.Clone(refusedDefinitions.errs)...)
}

// refuse records and logs the error of a definition.
func refuse(name string, err error) {
	refusedDefinitions.Lock()
	refusedDefinitions.errs = append(refusedDefinitions.errs, err)
	refusedDefinitions.Unlock()
	logging.Error(context.Background(), message.Fields{
		"message":  "job definition can't be used",
		"job_type": name,
		"error":    err.Error(),
	})
}
