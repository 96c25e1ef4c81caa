package amboy

// MetadataJob is implemented by jobs that carry data for other code, for instance
// middleware, from Put to Run. The data is stored with the job, and all of its attempts
// share it. job.Base implements it.
type MetadataJob interface {
	// Metadata returns a copy of the data; nil if there is none.
	Metadata() map[string]string
	// SetMetadata sets the value of a key. An empty value removes the key. It must be
	// called before Put, or by middleware during Put.
	SetMetadata(key, value string)
}

// MetadataOf returns a copy of the metadata of a job, or nil if its type has none.
func MetadataOf(j Job) map[string]string {
	if m, ok := j.(MetadataJob); ok {
		return m.Metadata()
	}
	return nil
}
