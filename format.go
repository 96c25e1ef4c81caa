package amboy

// Format is an encoding in which jobs are stored.
type Format int

// The formats.
const (
	// BSON encodes a nil slice or map as an empty one.
	BSON Format = 0
	// JSON is the encoding of the HTTP API and of copies in memory.
	JSON Format = 1
	// BSON2 is BSON that encodes a nil slice or map as null.
	BSON2 Format = 2
)

// IsValid reports whether f is one of the three formats.
func (f Format) IsValid() bool { return f >= BSON && f <= BSON2 }

// String returns the name of the format.
func (f Format) String() string {
	switch f {
	case BSON:
		return "bson"
	case JSON:
		return "json"
	case BSON2:
		return "bson2"
	default:
		return "invalid"
	}
}
