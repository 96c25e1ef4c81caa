package amboy

// MetadataJob is implemented by jobs that carry data of others than themselves, for
// instance of middleware, from Put to Run. It is stored with the job, and all of its
// attempts have it. job.Base implements it.
type MetadataJob interface {
	// Metadata returns a copy; nil where there is none.
	Metadata() map[string]string
	// SetMetadata sets the value of a key, and removes the key where that is
	// empty. It must be called before Put, or by middleware of it.
	SetMetadata(key, value string)
}

// MetadataOf returns a copy of the metadata of a job, nil for a type that has none.
func MetadataOf(j Job) map[string]string {
	if m, ok := j.(MetadataJob); ok {
		return m.Metadata()
	}
	return nil
}
