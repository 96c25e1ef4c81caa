// Package registry maps the names of job types to factories, and defines JobInterchange,
// the single serialized form of a job.
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

// JobFactory makes an empty job of one type, into which a stored job is decoded. The Type
// of the empty job is the type's current version.
type JobFactory func() amboy.Job

// JobUpgrade changes the stored body of a job, in place, from one version of its type to
// the next. The body is the job as it was encoded with its own tags. Values have the Go
// types to which the body's format decodes (numbers in JSON are json.Number).
type JobUpgrade func(body map[string]any) error

// jobType is a registered type.
type jobType struct {
	factory  JobFactory
	upgrades map[int]JobUpgrade
	fixed    bool // the factory must not be replaced
}

var types = struct {
	sync.RWMutex
	byName map[string]jobType
}{byName: map[string]jobType{}}

// AddJobType registers the factory of a job type, usually from an init function. If the
// name is already registered, it replaces the factory, keeps the upgrades and logs a
// warning. It refuses an empty name, a nil factory and the name of a type registered by
// RegisterJobType, and logs an error, since init functions can't return one. It is safe
// for concurrent use.
func AddJobType(name string, factory JobFactory) {
	if name == "" || factory == nil {
		logging.Error(context.Background(), message.Fields{
			"message": "refused to register a job type without a name or a factory",
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
			"message": "refused to replace a job type registered by RegisterJobType",
			"type":    name,
		})
	case replaces:
		logging.Warning(context.Background(), message.Fields{
			"message": "replaced a registered job type",
			"type":    name,
		})
	}
}

// RegisterJobType registers the factory of a job type permanently: neither RegisterJobType
// nor AddJobType replaces it. It returns an error for an empty name and a nil factory, and
// an error that wraps ErrTypeTaken for a name that is already registered. It is safe for
// concurrent use.
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

// addFixed returns false if the name is taken.
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

// AddJobUpgrade registers an upgrade of the body of a job from version from to version
// from+1. A job that is several versions old goes through several upgrades. AddJobUpgrade
// returns an error for an empty name, a negative version, a nil function, and a version
// that already has an upgrade. It is safe for concurrent use.
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
		return fmt.Errorf("adding an upgrade of job type %q: version %d already has one", name, from)
	}
	registrations.Changed()
	return nil
}

// addUpgrade returns false if the version already has an upgrade.
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

func getJobType(name string) (t jobType, ok bool) {
	types.RLock()
	defer types.RUnlock()
	t = types.byName[name]
	return t, t.factory != nil
}

// GetJobFactory returns the factory of a job type, or an *UnknownTypeError if it is not
// registered. It is safe for concurrent use.
func GetJobFactory(name string) (JobFactory, error) {
	t, ok := getJobType(name)
	if !ok {
		return nil, &UnknownTypeError{Type: name}
	}
	return t.factory, nil
}

// HasFunction reports whether this process has a function for jobs of a type: the type is
// registered, and is not one of job.Declare without a Bind. It is safe for concurrent use.
func HasFunction(name string) (has bool) {
	factory, err := GetJobFactory(name)
	if err != nil {
		return false
	}
	defer func() {
		if recover() != nil {
			has = true // a job of job.Declare does not panic
		}
	}()
	return amboy.RunsHere(factory())
}

// JobTypeNames returns a closed channel that holds the sorted names of all registered job
// types. It is safe for concurrent use.
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
