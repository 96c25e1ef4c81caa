package activity

import (
	"strconv"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// Notes returns the notes of what a process has done since started, which is part of their
// names: a process that is restarted may have the same ID.
func Notes(buckets []Bucket, process string, started time.Time) ([]driver.Note, error) {
	name := process + "." + strconv.FormatInt(started.UnixMilli(), 36)
	notes := make([]driver.Note, len(buckets))
	for i, b := range buckets {
		note, err := b.Note(name)
		if err != nil {
			return nil, err
		}
		notes[i] = note
	}
	return notes, nil
}
