package registry_test

import (
	"context"
	"errors"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// sample is the job type of the golden documents.
type sample struct {
	Path   string            `bson:"path" json:"path"`
	Bytes  int64             `bson:"bytes" json:"bytes"`
	Tags   []string          `bson:"tags" json:"tags"`
	Labels map[string]string `bson:"labels" json:"labels"`
	Fail   bool              `bson:"fail" json:"fail"`
	Hold   bool              `bson:"hold" json:"hold"`

	job.Base `bson:"job_base" json:"job_base"`
}

func init() {
	registry.AddJobType("sample", func() amboy.Job { return makeSample() })
	job.RegisterDefaultJobs()
}

func makeSample() *sample {
	return &sample{Base: job.Base{JobType: amboy.JobType{Name: "sample", Version: 1}}}
}

func newSample(id string) *sample {
	s := makeSample()
	s.SetID(id)
	return s
}

func (s *sample) Run(context.Context) {
	defer s.MarkComplete()
	if s.Fail {
		s.AddError(errors.New("could not read the file"))
	}
}

// at returns a time that every format preserves: whole milliseconds, in UTC.
func at(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 7e6, time.UTC) }

var formats = []amboy.Format{amboy.BSON, amboy.BSON2, amboy.JSON}

func ptr[T any](v T) *T { return &v }
