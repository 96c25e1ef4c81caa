package amboy

import "time"

// JobProgress is how far a running job has come.
type JobProgress struct {
	// Fraction is the part that is done, from 0 to 1.
	Fraction float64 `bson:"fraction" json:"fraction" yaml:"fraction"`
	// Message says it to a person.
	Message string `bson:"message,omitempty" json:"message,omitempty" yaml:"message,omitempty"`
	// Time is when it was reported.
	Time time.Time `bson:"time" json:"time" yaml:"time"`
}
