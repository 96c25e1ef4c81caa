package driver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

func TestKindKeysAreUnique(t *testing.T) {
	keys := map[string]driver.Kind{}
	for _, k := range []driver.Kind{
		{Type: "a"},
		{Type: "a", Version: 1},
		{Type: "a", Version: -1},
		{Type: "a/1"},
		{Type: `a"/1+"d`, Version: 2},
		{Type: "a", Version: 1, Manager: "d", ManagerVersion: 2},
		{Type: "a", Version: 1, Manager: "d", ManagerVersion: 3},
		{Type: "a", Version: 1, Manager: `d"/2+"e`, ManagerVersion: 3},
		{},
	} {
		assert.NotContains(t, keys, k.Key())
		keys[k.Key()] = k
	}
	assert.Equal(t, `"a"/1+"d"/2`, driver.Kind{Type: "a", Version: 1, Manager: "d", ManagerVersion: 2}.Key(), "the format is stored")
	assert.Equal(t, `job type "a" version 1 with dependency type "d" version 2`,
		driver.Kind{Type: "a", Version: 1, Manager: "d", ManagerVersion: 2}.String())
}

func TestKindOfIgnoresThePlainManager(t *testing.T) {
	r := &driver.Record{Type: "a", Version: 1}
	bare := driver.KindOf(r)
	r.Dependency = registry.PlainDependency(amboy.JSON)
	assert.Equal(t, bare, driver.KindOf(r))
	other := *r.Dependency
	other.Version++
	r.Dependency = &other
	assert.NotEqual(t, bare, driver.KindOf(r))
}
