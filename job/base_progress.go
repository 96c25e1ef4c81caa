package job

import "github.com/mongodb/amboy"

var _ amboy.ProgressJob = (*Base)(nil)

// attemptProgress is how far an attempt of a job has come.
type attemptProgress struct {
	amboy.JobProgress
	attempt int
}

// Progress is what this attempt of the job has last said; nil where it said
// nothing.
func (b *Base) Progress() *amboy.JobProgress {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.currentProgress()
	if p == nil {
		return nil
	}
	progress := p.Clone()
	return &progress
}

// SetProgress replaces what the job has said of its progress. It stores nothing: a
// running job calls SetProgress of this package.
func (b *Base) SetProgress(progress amboy.JobProgress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.needRare().progress = &attemptProgress{progress.Clone(), b.retry.CurrentAttempt}
}

// updateProgress changes what the job says of its progress, and returns a copy.
func (b *Base) updateProgress(change func(*amboy.JobProgress)) amboy.JobProgress {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.currentProgress() == nil {
		b.needRare().progress = &attemptProgress{attempt: b.retry.CurrentAttempt}
	}
	p := b.currentProgress()
	change(&p.JobProgress)
	return p.Clone()
}

// currentProgress leaves out that of an earlier attempt.
func (b *Base) currentProgress() *attemptProgress {
	r := b.rare.Load()
	if r == nil || r.progress == nil || r.progress.attempt != b.retry.CurrentAttempt {
		return nil
	}
	return r.progress
}
