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
	if r.sharesMetadata {
		r.metadata, r.sharesMetadata = maps.Clone(r.metadata), false
	}
	if value == "" {
		delete(r.metadata, key)
		return
	}
	if r.metadata == nil {
		r.metadata = map[string]string{}
	}
	r.metadata[key] = value
}

// ShareMetadata returns the metadata without a copy, for the stored form of the job. It must not be
// changed.
func (j *typedBase) ShareMetadata() map[string]string {
	r := j.extras.Load()
	if r == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	r.sharesMetadata = true
	return r.metadata
}

// RestoreMetadata sets the metadata to those of the stored form of the job, without a copy.
func (j *typedBase) RestoreMetadata(stored map[string]string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.ensureExtras()
	r.metadata, r.sharesMetadata = stored, true
}
