package amboy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
)

func TestPriorityOf(t *testing.T) {
	j := newJob("a")
	assert.Equal(t, 0, amboy.PriorityOf(j))
	j.SetPriority(-3)
	assert.Equal(t, -3, amboy.PriorityOf(j))

	withoutPriority := struct{ amboy.Job }{j}
	assert.Equal(t, 0, amboy.PriorityOf(withoutPriority))
}
