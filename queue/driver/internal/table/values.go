package table

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"math"
	"time"
)

// Instant is a time as it is stored: in nanoseconds since 1970, NULL for the zero time.
type Instant = sql.NullInt64

// The range of times that can be stored. Times beyond it are centuries away.
var (
	firstTime = time.Unix(0, math.MinInt64)
	lastTime  = time.Unix(0, math.MaxInt64-1)
)

// InstantOf returns a time as it is stored.
func InstantOf(t time.Time) Instant {
	switch {
	case t.IsZero():
		return Instant{}
	case t.Before(firstTime):
		t = firstTime
	case t.After(lastTime):
		t = lastTime
	}
	return Instant{Int64: t.UnixNano(), Valid: true}
}

// TimeOf returns the time of an instant.
func TimeOf(i Instant) time.Time {
	if !i.Valid {
		return time.Time{}
	}
	return time.Unix(0, i.Int64).UTC()
}

// Earliest returns when a claim may find more, from the first times at which a record becomes due
// and at which one expires; zero for never. A record may still start at its dispatch-by time.
func Earliest(due, expires Instant) time.Time {
	if expires.Valid {
		expires.Int64++
		if !due.Valid || expires.Int64 < due.Int64 {
			due = expires
		}
	}
	return TimeOf(due)
}

// Names is a list of names in a column, as JSON; NULL if it is empty.
type Names []string

// Value implements the Valuer of database/sql.
func (n Names) Value() (sqldriver.Value, error) {
	if len(n) == 0 {
		return nil, nil
	}
	text, err := json.Marshal([]string(n))
	return string(text), err
}

// DecodeNames decodes a list of names; text is empty for NULL.
func DecodeNames(text string) (Names, error) {
	if text == "" {
		return nil, nil
	}
	var list Names
	err := json.Unmarshal([]byte(text), &list)
	return list, err
}
