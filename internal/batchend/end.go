// Package batchend provides the job that marks the end of a batch. Package batch puts it,
// and package queue imports it, so that every process that runs jobs can run it.
package batchend

import (
	"context"
	"math"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// Type is the job type of End.
var Type = amboy.JobType{Name: "amboy-batch-end", Version: 1}

func init() {
	registry.AddJobType(Type.Name, func() amboy.Job { return &End{Base: job.Base{JobType: Type}} })
}

// End depends on the jobs of a batch and does nothing. It ends after all of them, whatever
// their outcome.
type End struct {
	job.Base `bson:"job_base" json:"job_base" yaml:"job_base"`
}

// New returns the end of a batch, without edges. It has the highest priority, because a
// caller may wait for it.
func New(id string) *End {
	e := &End{Base: job.Base{Name: id, JobType: Type}}
	e.SetPriority(math.MaxInt32)
	e.Dependency().(dependency.FailureChooser).SetOnFailure(dependency.RunOnFailure)
	return e
}

// Run does nothing.
func (e *End) Run(context.Context) { e.MarkComplete() }
