package job

import "maps"

// Metadata returns a copy of the data that other code keeps with the job; nil if there is
// none.
func (b *Base) Metadata() map[string]string {
	r := b.extras.Load()
	if r == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(r.metadata)
}

// SetMetadata sets the value of a key. An empty value removes the key. It must be called
// before Put, or by middleware during Put.
func (b *Base) SetMetadata(key, value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ensureExtras()
	if value == "" {
		delete(r.metadata, key)
		return
	}
	if r.metadata == nil {
		r.metadata = map[string]string{}
	}
	r.metadata[key] = value
}
