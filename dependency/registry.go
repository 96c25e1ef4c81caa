package dependency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/registrations"
)

// ErrUnknownType is wrapped by the errors for names under which no factory is registered.
var ErrUnknownType = errors.New("dependency type is not registered")

// ManagerFactory makes an empty manager of one type, into which a stored manager is
// decoded.
type ManagerFactory func() Manager

// factories maps names to factories. It is safe for concurrent use.
type factories[T any] struct {
	kind   string
	mu     sync.RWMutex
	byName map[string]func() T
}

func newFactories[T any](kind string) *factories[T] {
	return &factories[T]{kind: kind, byName: map[string]func() T{}}
}

// add registers a factory. It logs an error for bad input, and a warning if it replaces a
// factory, because types are registered from init functions, which can't return an error.
func (r *factories[T]) add(name string, factory func() T) {
	if name == "" || factory == nil {
		logging.Error(context.Background(), message.Fields{
			"message": "refused to register a " + r.kind + " without a name or a factory",
			"name":    name,
		})
		return
	}
	r.mu.Lock()
	_, replaced := r.byName[name]
	r.byName[name] = factory
	r.mu.Unlock()
	registrations.Changed()

	if replaced {
		logging.Warning(context.Background(), message.Fields{
			"message": "replaced a registered " + r.kind,
			"name":    name,
		})
	}
}

func (r *factories[T]) get(name string) (func() T, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	factory, ok := r.byName[name]
	if !ok {
		return nil, fmt.Errorf("finding %s %q: %w", r.kind, name, ErrUnknownType)
	}
	return factory, nil
}

// names returns the sorted names.
func (r *factories[T]) names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.byName))
}

var (
	managers = newFactories[Manager]("dependency type")
	checks   = newFactories[CheckFunc]("dependency check")
)

func init() {
	RegisterManager(alwaysName, NewAlways)
	RegisterManager(createsFileName, func() Manager { return NewCreatesFile("") })
	RegisterManager(localFileName, func() Manager { return MakeLocalFile() })
	RegisterManager(checkName, func() Manager { return NewCheckManager("") })
	RegisterManager(mockName, func() Manager { return NewMock() })
}

// RegisterManager registers the factory of a type of manager, so that stored managers of
// the type can be decoded. If the name is already registered, it replaces the factory and
// logs a warning. It refuses an empty name and a nil factory, and logs an error. It is
// safe for concurrent use.
func RegisterManager(name string, factory ManagerFactory) { managers.add(name, factory) }

// GetManagerFactory returns the factory of a type of manager, or an error that wraps
// ErrUnknownType.
func GetManagerFactory(name string) (ManagerFactory, error) { return managers.get(name) }

// ManagerNames returns the sorted names of the registered types of managers. It is safe
// for concurrent use.
func ManagerNames() []string { return managers.names() }

// RegisterCheck registers a check for NewCheckManager. If the name is already registered,
// it replaces the check and logs a warning. It refuses an empty name and a nil factory,
// and logs an error. It is safe for concurrent use.
func RegisterCheck(name string, factory CheckFactory) { checks.add(name, factory) }

// GetCheckFactory returns the factory of a check, or an error that wraps ErrUnknownType.
func GetCheckFactory(name string) (CheckFactory, error) { return checks.get(name) }
