// Package registry brings stored jobs back to life. It knows the types of jobs
// by name, and has the one serialized form of a job, JobInterchange.
package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/registrations"
)

// JobFactory makes an empty job of one type, to decode a stored one into. The
// Type of what it makes is the type's current version.
type JobFactory func() amboy.Job

// JobUpgrade changes the stored body of a job from one version of its type to
// the next. The body is the job as it was encoded with its own tags; values
// have the Go types that the body's format decodes to (numbers are json.Number
// in JSON). It changes the map in place.
type JobUpgrade func(body map[string]any) error

// jobType is what is registered under a name.
type jobType struct {
	factory  JobFactory
	upgrades map[int]JobUpgrade
	fixed    bool // the factory must not be replaced
}

var types = struct {
	sync.RWMutex
	byName map[string]jobType
}{byName: map[string]jobType{}}

// AddJobType registers the factory of a job type, usually from an init
// function. A name that is registered already is replaced, with a warning in
// the log; its upgrades stay. An empty name, a nil factory and the name of a type
// that RegisterJobType registered are refused with an error in the log, since init
// functions have nowhere to return one. It is safe for concurrent use.
func AddJobType(name string, factory JobFactory) {
	if name == "" || factory == nil {
		logging.Error(context.Background(), message.Fields{
			"message": "refused to register a job type that has no name or no factory",
			"type":    name,
		})
		return
	}
	types.Lock()
	t := types.byName[name]
	replaces := t.factory != nil
	if !t.fixed {
		t.factory = factory
		types.byName[name] = t
	}
	types.Unlock()
	registrations.Changed()

	switch {
	case t.fixed:
		logging.Error(context.Background(), message.Fields{
			"message": "refused to replace a job type that must not be replaced",
			"type":    name,
		})
	case replaces:
		logging.Warning(context.Background(), message.Fields{
			"message": "replaced a registered job type",
			"type":    name,
		})
	}
}

// RegisterJobType registers the factory of a job type for good: neither it nor
// AddJobType replaces it. It returns an error for an empty name and a nil factory,
// and one that wraps ErrTypeTaken for a name that is registered already. It is safe
// for concurrent use.
func RegisterJobType(name string, factory JobFactory) error {
	switch {
	case name == "":
		return errors.New("registering a job type: its name must not be empty")
	case factory == nil:
		return fmt.Errorf("registering job type %q: its factory must not be nil", name)
	}
	if !addFixed(name, factory) {
		return fmt.Errorf("registering job type %q: %w", name, ErrTypeTaken)
	}
	registrations.Changed()
	return nil
}

// addFixed returns false for a name that is taken.
func addFixed(name string, factory JobFactory) bool {
	types.Lock()
	defer types.Unlock()
	t := types.byName[name]
	if t.factory != nil {
		return false
	}
	t.factory, t.fixed = factory, true
	types.byName[name] = t
	return true
}

// AddJobUpgrade registers how the body of a job stored under version from is
// made one of version from+1. A job that is several versions old goes through
// the upgrades one after the other. It returns an error for an empty name, a
// negative version, a nil function, and for a version that has an upgrade
// already. It is safe for concurrent use.
func AddJobUpgrade(name string, from int, upgrade JobUpgrade) error {
	switch {
	case name == "":
		return errors.New("adding a job upgrade: type name must not be empty")
	case from < 0:
		return fmt.Errorf("adding an upgrade of job type %q: version must not be negative (is %d)", name, from)
	case upgrade == nil:
		return fmt.Errorf("adding an upgrade of job type %q from version %d: function must not be nil", name, from)
	}
	if !addUpgrade(name, from, upgrade) {
		return fmt.Errorf("adding an upgrade of job type %q: version %d has one already", name, from)
	}
	registrations.Changed()
	return nil
}

// addUpgrade returns false for a version that has an upgrade.
func addUpgrade(name string, from int, upgrade JobUpgrade) bool {
	types.Lock()
	defer types.Unlock()
	t := types.byName[name]
	if _, ok := t.upgrades[from]; ok {
		return false
	}
	t.upgrades = maps.Clone(t.upgrades)
	if t.upgrades == nil {
		t.upgrades = map[int]JobUpgrade{}
	}
	t.upgrades[from] = upgrade
	types.byName[name] = t
	return true
}

func getJobType(name string) (jobType, error) {
	types.RLock()
	defer types.RUnlock()
	t := types.byName[name]
	if t.factory == nil {
		return t, &UnknownTypeError{Type: name}
	}
	return t, nil
}

// GetJobFactory returns the factory of a job type. It returns an
// *UnknownTypeError where there is none. It is safe for concurrent use.
func GetJobFactory(name string) (JobFactory, error) {
	t, err := getJobType(name)
	return t.factory, err
}

// JobTypeNames gives the names of the registered job types, sorted, on a closed
// channel that holds them all. It is safe for concurrent use.
func JobTypeNames() <-chan string {
	types.RLock()
	names := slices.Sorted(maps.Keys(types.byName))
	types.RUnlock()

	out := make(chan string, len(names))
	for _, name := range names {
		if _, err := GetJobFactory(name); err == nil {
			out <- name
		}
	}
	close(out)
	return out
}

// AddDependencyType registers the factory of a type of dependency manager, as
// dependency.RegisterManager does.
func AddDependencyType(name string, factory dependency.ManagerFactory) {
	dependency.RegisterManager(name, factory)
}

// GetDependencyFactory returns the factory of a type of dependency manager, or
// an error that wraps dependency.ErrUnknownType.
func GetDependencyFactory(name string) (dependency.ManagerFactory, error) {
	return dependency.GetManagerFactory(name)
}

// AddCheckType registers a check for dependency.NewCheckManager, as
// dependency.RegisterCheck does.
func AddCheckType(name string, factory dependency.CheckFactory) {
	dependency.RegisterCheck(name, factory)
}

// GetCheckFactory returns the factory of a check, or an error that wraps
// dependency.ErrUnknownType.
func GetCheckFactory(name string) (dependency.CheckFactory, error) {
	return dependency.GetCheckFactory(name)
}
