package driver

import "context"

// SchemaChecker is implemented by a Driver that stops writing when another process changes the
// schema of the store.
type SchemaChecker interface {
	// CheckSchema returns an error unless the schema is still that with which the driver was
	// opened. It reads a number of the store.
	CheckSchema(ctx context.Context) error
}
