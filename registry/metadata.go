package registry

import "github.com/mongodb/amboy"

// metadataSharer is implemented by jobs that share their metadata with their stored form, because
// copies would take as long as the rest of a small job. Neither changes the map.
type metadataSharer interface {
	ShareMetadata() map[string]string
	RestoreMetadata(stored map[string]string)
}

// metadataOf returns the metadata for the stored form of a job.
func metadataOf(j amboy.Job) map[string]string {
	if own, ok := j.(metadataSharer); ok {
		return own.ShareMetadata()
	}
	return amboy.MetadataOf(j)
}

// restoreMetadata sets the metadata of a job to those of its stored form.
func restoreMetadata(j amboy.Job, stored map[string]string) {
	if len(stored) == 0 {
		return
	}
	if own, ok := j.(metadataSharer); ok {
		own.RestoreMetadata(stored)
		return
	}
	if m, ok := j.(amboy.MetadataJob); ok {
		for key, value := range stored {
			m.SetMetadata(key, value)
		}
	}
}
