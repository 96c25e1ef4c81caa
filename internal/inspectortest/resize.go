package inspectortest

import (
	"context"
	"sync"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// Resize is a job type.
type Resize struct {
	job.Base `bson:"job_base" json:"job_base"`
	Path     string `bson:"path" json:"path"`
}

// Runs maps the paths of jobs to functions that they run. A job without a function does nothing.
var Runs sync.Map

// NewResize returns a job whose path names the function that it runs.
func NewResize(id, path string) *Resize {
	j := &Resize{Path: path}
	j.SetID(id)
	j.SetType(amboy.JobType{Name: "resize", Version: 1})
	return j
}

func init() {
	registry.AddJobType("resize", func() amboy.Job { return NewResize("", "") })
}

// Run implements amboy.Job.
func (j *Resize) Run(ctx context.Context) {
	defer j.MarkComplete()
	if run, ok := Runs.Load(j.Path); ok {
		run.(func(context.Context, *Resize))(ctx, j)
	}
}
