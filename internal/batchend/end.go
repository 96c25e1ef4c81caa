// Package batchend has the job that stands for the end of a batch. Package batch
// puts it, and package queue knows it, so that whoever runs jobs can run it.
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

// End depends on the jobs of a batch and does nothing, so that it has ended when
// all of them have, however they did.
type End struct {
	job.Base `bson:"job_base" json:"job_base" yaml:"job_base"`
}

// New returns the end of a batch, without edges. It goes before all other jobs, as
// somebody may wait for it.
func New(id string) *End {
	e := &End{Base: job.Base{Name: id, JobType: Type}}
	e.SetPriority(math.MaxInt32)
	e.Dependency().(dependency.FailureChooser).SetOnFailure(dependency.RunOnFailure)
	return e
}

// Run does nothing.
func (e *End) Run(context.Context) { e.MarkComplete() }
