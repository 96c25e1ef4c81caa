package jobstate

import (
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
)

// PutErrors collects the errors of one PutMany.
type PutErrors struct {
	errs []error
	// notPut are the IDs of the jobs that were not put.
	notPut map[string]struct{}
}

// Add adds the error of a job.
func (p *PutErrors) Add(j amboy.Job, err error) {
	p.errs = append(p.errs, err)
	if amboy.IsNilJob(j) {
		return
	}
	var id string
	if contain.Panic(func() error { id = j.ID(); return nil }) != nil {
		return // err is that panic
	}
	if p.notPut == nil {
		p.notPut = map[string]struct{}{}
	}
	p.notPut[id] = struct{}{}
}

// Collate combines the errors. If a job was refused because the queue does not hold its
// dependency, which is a job that was not put either, the error says so.
func (p *PutErrors) Collate() error {
	for i, err := range p.errs {
		var invalid *amboy.InvalidJobError
		if !errors.As(err, &invalid) || invalid.Field != "dependency edge" {
			continue
		}
		dependency, ok := invalid.Value.(string)
		if !ok {
			continue
		}
		if _, ok := p.notPut[dependency]; ok {
			err = &amboy.DependencyNotPutError{JobID: invalid.JobID, DependencyID: dependency}
			p.errs[i] = fmt.Errorf("putting job %q: %w", invalid.JobID, err)
		}
	}
	return amboy.CollateWriteErrors(p.errs)
}
