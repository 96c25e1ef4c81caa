package driver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/queue/driver"
)

func TestNoteValidate(t *testing.T) {
	longest := strings.Repeat("n", driver.MaxNoteName)
	valid := driver.Note{Kind: longest, Key: longest, Value: make([]byte, driver.MaxNoteBytes), Until: time.Unix(1, 0)}
	for message, change := range map[string]func(*driver.Note){
		"":                                      func(*driver.Note) {},
		"must have from 1 to 512 bytes (has 0)": func(n *driver.Note) { n.Kind = "" },
		"invalid note: Kind must have":          func(n *driver.Note) { n.Kind += "n" },
		"Key must have from 1 to 512":           func(n *driver.Note) { n.Key = "" },
		"Key must have from 1 to 512 bytes (has 513)":         func(n *driver.Note) { n.Key += "n" },
		"Value must have at most 1048576 bytes (has 1048577)": func(n *driver.Note) { n.Value = append(n.Value, 0) },
		"Until must be set": func(n *driver.Note) { n.Until = time.Time{} },
	} {
		n := valid
		change(&n)
		if err := n.Validate(); message == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, message)
		}
	}
	valid.Value = nil
	assert.NoError(t, valid.Validate(), "a note may say nothing")
}
