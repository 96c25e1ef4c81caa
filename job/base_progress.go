package job

import "github.com/mongodb/amboy"

var _ amboy.ProgressJob = (*Base)(nil)

// attemptProgress is the progress of one attempt.
type attemptProgress struct {
	amboy.JobProgress
	attempt int
}

// Progress returns the latest progress of this attempt; nil if it reported none.
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

// SetProgress replaces the progress of this value. It does not store it: a running job
// calls SetProgress of this package.
func (b *Base) SetProgress(progress amboy.JobProgress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ensureExtras().progress = &attemptProgress{progress.Clone(), b.retryInfo().CurrentAttempt}
}

// updateProgress applies a change to the progress and returns a copy.
func (b *Base) updateProgress(change func(*amboy.JobProgress)) amboy.JobProgress {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.currentProgress() == nil {
		b.ensureExtras().progress = &attemptProgress{attempt: b.retryInfo().CurrentAttempt}
	}
	p := b.currentProgress()
	change(&p.JobProgress)
	return p.Clone()
}

// currentProgress returns the progress unless it belongs to an earlier attempt.
func (b *Base) currentProgress() *attemptProgress {
	r := b.extras.Load()
	if r == nil || r.progress == nil || r.progress.attempt != b.retryInfo().CurrentAttempt {
		return nil
	}
	return r.progress
}
