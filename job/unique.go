package job

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/amboy"
)

// Uniqueness defines which jobs of a definition must not exist twice at a time: jobs that
// are equal in all properties that are set here. A queue refuses the second one with a
// duplicate job error.
type Uniqueness struct {
	// Args compares the arguments, encoded as JSON.
	Args bool
	// Period compares the periods of that length in which the jobs may first run. Periods
	// are counted from the zero time, in UTC. It must not be negative.
	Period time.Duration
	// Key compares the key. It must be at most amboy.MaxIDLength bytes long.
	Key string
	// Until is how long a job keeps others out. Default: UniqueUntilForgotten if there is a
	// Period, otherwise UniqueUntilEnded. No job keeps others out after the queue has removed
	// it (see amboy.Retention).
	Until amboy.UniqueUntil
}

// Unique sets which jobs must not exist twice at a time. The zero Uniqueness allows any.
func Unique(u Uniqueness) Option {
	return func(s *settings) { s.setUnique(u) }
}

func (s *settings) setUnique(u Uniqueness) {
	switch {
	case u.Period < 0:
		s.invalid("unique period", u.Period, "must not be negative")
	case len(u.Key) > amboy.MaxIDLength:
		s.invalid("unique key", u.Key, fmt.Sprintf("must be at most %d bytes long", amboy.MaxIDLength))
	case !u.Until.IsValid():
		s.invalid("unique until", u.Until, "must be one of the amboy.UniqueUntil values")
	case u.Until != "" && !u.isSet():
		s.invalid("unique until", u.Until, "must come with Args, Period or Key")
	}
	s.unique = u
}

func (u *Uniqueness) isSet() bool { return u.Args || u.Period > 0 || u.Key != "" }

// apply gives a new job its unique key. stored is what its arguments are stored from: encoding/json calls
// methods with pointer receivers, as those of big.Int, only for what has an address.
func (u *Uniqueness) apply(j *typedBase, q amboy.Queue, made amboy.ArgsJob, stored any) error {
	if !u.isSet() {
		return nil
	}
	parts := []string{strconv.Quote(j.JobType.Name)}
	if u.Key != "" {
		parts = append(parts, "key="+strconv.Quote(u.Key))
	}
	until := u.Until
	if u.Period > 0 {
		at := j.times.WaitUntil
		if now := amboy.Now(q); at.Before(now) {
			at = now
		}
		parts = append(parts, "period="+u.Period.String()+"@"+at.UTC().Truncate(u.Period).Format(time.RFC3339Nano))
		if until == "" {
			until = amboy.UniqueUntilForgotten
		}
	}
	if u.Args {
		encoded, err := json.Marshal(stored)
		if err != nil {
			return &amboy.InvalidJobError{Field: "args", Value: fmt.Sprintf("%T", made.Args()), Rule: "must be encodable as JSON, by which they are compared: " + err.Error()}
		}
		sum := sha256.Sum256(encoded)
		parts = append(parts, "args="+base64.RawURLEncoding.EncodeToString(sum[:]))
	}
	j.SetUniqueKey(strings.Join(parts, " "), until)
	return nil
}
