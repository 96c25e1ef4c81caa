package management

import (
	"context"

	"github.com/mongodb/amboy/registry"
)

// JobType is a type of jobs that is registered in the process of an Inspector.
type JobType struct {
	Type string `json:"type"`
	// Version is the version of new jobs, and OldestVersion that of the oldest stored jobs
	// that the process can run.
	Version       int `json:"version"`
	OldestVersion int `json:"oldest_version"`
	// Create is true if CreateJob accepts the type. Over HTTP, rest.CreateTypes decides.
	Create bool `json:"create"`
}

// TypeLister lists types of jobs. The Inspectors of this package are TypeListers, and so is
// rest.Client.
type TypeLister interface {
	// JobTypes lists the types that are registered in the process of the Inspector, by name.
	// Other processes on the same store may know others.
	JobTypes(ctx context.Context) ([]JobType, error)
}

var _ TypeLister = (*inspector)(nil)

func (i *inspector) JobTypes(context.Context) ([]JobType, error) {
	types := []JobType{}
	for _, known := range registry.KnownTypes().Jobs {
		types = append(types, JobType{Type: known.Name, Version: known.To, OldestVersion: known.From, Create: true})
	}
	return types, nil
}
