package job

import "maps"

// Metadata returns a copy of the data that others than the job keep with it; nil
// where there is none.
func (b *Base) Metadata() map[string]string {
	r := b.rare.Load()
	if r == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(r.metadata)
}

// SetMetadata sets the value of a key, and removes the key where that is empty. It
// must be called before Put, or by middleware of it.
func (b *Base) SetMetadata(key, value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.needRare()
	if value == "" {
		delete(r.metadata, key)
		return
	}
	if r.metadata == nil {
		r.metadata = map[string]string{}
	}
	r.metadata[key] = value
}
