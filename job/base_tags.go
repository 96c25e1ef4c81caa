package job

import (
	"slices"

	"github.com/mongodb/amboy"
)

var _ amboy.TaggedJob = (*Base)(nil)

// Tags returns a copy of the tags, by which operators find the job; nil if there are none.
func (b *Base) Tags() []string {
	r := b.extras.Load()
	if r == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(r.tags)
}

// SetTags replaces the tags and removes duplicates. It must be called before Put.
func (b *Base) SetTags(tags []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(tags) > 0 || b.extras.Load() != nil {
		b.ensureExtras().tags = unique(tags)
	}
}
