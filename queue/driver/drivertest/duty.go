package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
)

var dutyRules = []rule{
	{"a duty has one owner until it ends", dutyOneOwner},
	{"its owner renews it", dutyRenewed},
	{"a refused call changes nothing", dutyRefused},
	{"a fast clock does not make a duty longer", dutyAhead},
	{"duties are distinguished by name", dutyNames},
}

// takeDuty takes a duty at a time, for some hours.
func (f *fixture) takeDuty(name, by string, at, hours float64) bool {
	f.Helper()
	duty := driver.Duty{Name: name, Owner: by, For: time.Duration(hours * float64(time.Hour))}
	taken, err := f.driver.TakeDuty(f.ctx, duty, f.after(at))
	require.NoError(f, err)
	return taken
}

func dutyOneOwner(f *fixture) {
	assert.True(f, f.takeDuty("duty", "a", 0, 2))
	assert.False(f, f.takeDuty("duty", "b", 1, 2))
	assert.True(f, f.takeDuty("duty", "b", 2, 2), "the duty is free at its end")
	assert.False(f, f.takeDuty("duty", "a", 3, 2))
}

func dutyRenewed(f *fixture) {
	assert.True(f, f.takeDuty("duty", "a", 0, 2))
	assert.True(f, f.takeDuty("duty", "a", 1, 2))
	assert.False(f, f.takeDuty("duty", "b", 2, 2))
	assert.True(f, f.takeDuty("duty", "a", 2, 0), "the duty is given up")
	assert.True(f, f.takeDuty("duty", "b", 2, 2))
}

func dutyRefused(f *fixture) {
	assert.True(f, f.takeDuty("duty", "a", 0, 2))
	assert.False(f, f.takeDuty("duty", "b", 1, 9))
	assert.True(f, f.takeDuty("duty", "c", 2, 1))
}

func dutyAhead(f *fixture) {
	assert.True(f, f.takeDuty("duty", "a", 8, 2))
	assert.True(f, f.takeDuty("duty", "b", 0, 2), "the clock was set back")
	assert.False(f, f.takeDuty("duty", "a", 1, 2))
}

func dutyNames(f *fixture) {
	assert.True(f, f.takeDuty("one", "a", 0, 2))
	assert.True(f, f.takeDuty("two", "b", 1, 2))
	assert.True(f, f.takeDuty("One", "c", 1, 2))
	assert.False(f, f.takeDuty("one", "b", 1, 2))
}
