package job

import (
	"slices"

	"github.com/mongodb/amboy"
)

var _ amboy.TaggedJob = (*Base)(nil)

// Tags returns a copy of the names by which people find the job; nil where there are
// none.
func (b *Base) Tags() []string {
	r := b.rare.Load()
	if r == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(r.tags)
}

// SetTags replaces the tags, leaving out repeated ones. It must be called before
// Put.
func (b *Base) SetTags(tags []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(tags) > 0 || b.rare.Load() != nil {
		b.needRare().tags = unique(tags)
	}
}
