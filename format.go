package amboy

// Format is a form in which jobs are stored.
type Format int

// The formats.
const (
	// BSON stores a nil slice or map of a job as an empty one.
	BSON Format = 0
	// JSON is the form of the HTTP API and of copies in memory.
	JSON Format = 1
	// BSON2 is BSON that stores a nil slice or map of a job as null.
	BSON2 Format = 2
)

// IsValid is true for the three formats.
func (f Format) IsValid() bool { return f >= BSON && f <= BSON2 }

// String names the format.
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
