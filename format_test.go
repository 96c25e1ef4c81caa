package amboy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
)

func TestFormat(t *testing.T) {
	for _, test := range []struct {
		format amboy.Format
		number int
		name   string
		valid  bool
	}{
		{amboy.BSON, 0, "bson", true},
		{amboy.JSON, 1, "json", true},
		{amboy.BSON2, 2, "bson2", true},
		{amboy.Format(3), 3, "invalid", false},
		{amboy.Format(-1), -1, "invalid", false},
	} {
		assert.Equal(t, test.number, int(test.format))
		assert.Equal(t, test.name, test.format.String())
		assert.Equal(t, test.valid, test.format.IsValid(), test.name)
	}
}
