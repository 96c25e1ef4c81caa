package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
)

var dutyRules = []rule{
	{"a duty has one owner until its time", dutyOneOwner},
	{"its owner renews it", dutyRenewed},
	{"who is refused changes nothing", dutyRefused},
	{"duties are told apart by their names", dutyNames},
}

// takeDuty takes a duty at a time, until another.
func (f *fixture) takeDuty(name, by string, at, until float64) bool {
	f.Helper()
	taken, err := f.driver.TakeDuty(f.ctx, driver.Duty{Name: name, Owner: by, Until: f.after(until)}, f.after(at))
	require.NoError(f, err)
	return taken
}

func dutyOneOwner(f *fixture) {
	assert.True(f, f.takeDuty("duty", "a", 0, 2))
	assert.False(f, f.takeDuty("duty", "b", 1, 3))
	assert.True(f, f.takeDuty("duty", "b", 2, 4), "it is free again at that time")
	assert.False(f, f.takeDuty("duty", "a", 3, 5))
}

func dutyRenewed(f *fixture) {
	assert.True(f, f.takeDuty("duty", "a", 0, 2))
	assert.True(f, f.takeDuty("duty", "a", 1, 3))
	assert.False(f, f.takeDuty("duty", "b", 2, 4))
	assert.True(f, f.takeDuty("duty", "a", 2, 2), "it is given up")
	assert.True(f, f.takeDuty("duty", "b", 2, 4))
}

func dutyRefused(f *fixture) {
	assert.True(f, f.takeDuty("duty", "a", 0, 2))
	assert.False(f, f.takeDuty("duty", "b", 1, 9))
	assert.True(f, f.takeDuty("duty", "c", 2, 3))
}

func dutyNames(f *fixture) {
	assert.True(f, f.takeDuty("one", "a", 0, 2))
	assert.True(f, f.takeDuty("two", "b", 1, 3))
	assert.True(f, f.takeDuty("One", "c", 1, 3))
	assert.False(f, f.takeDuty("one", "b", 1, 3))
}
