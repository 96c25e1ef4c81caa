package dependency_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/dependency"
)

// registries are the package's two registries behind one set of functions. Factories are
// identified by numbers.
var registries = map[string]struct {
	register    func(name string, number int)
	registerNil func(name string)
	number      func(name string) (int, error)
}{
	"managers": {
		register: func(name string, number int) {
			dependency.RegisterManager(name, func() dependency.Manager {
				return &dependency.Always{T: dependency.TypeInfo{Name: name, Version: number}}
			})
		},
		registerNil: func(name string) { dependency.RegisterManager(name, nil) },
		number: func(name string) (int, error) {
			factory, err := dependency.GetManagerFactory(name)
			if err != nil {
				return 0, err
			}
			return factory().Type().Version, nil
		},
	},
	"checks": {
		register: func(name string, number int) {
			dependency.RegisterCheck(name, func() dependency.CheckFunc {
				return func([]string) dependency.State { return dependency.State(number) }
			})
		},
		registerNil: func(name string) { dependency.RegisterCheck(name, nil) },
		number: func(name string) (int, error) {
			factory, err := dependency.GetCheckFactory(name)
			if err != nil {
				return 0, err
			}
			return int(factory()(nil)), nil
		},
	},
}

func TestRegistry(t *testing.T) {
	for kind, registry := range registries {
		t.Run(kind, func(t *testing.T) {
			logged := captureLogs(t)
			name := uniqueName(t)

			_, err := registry.number(name)
			require.ErrorIs(t, err, dependency.ErrUnknownType)
			require.ErrorContains(t, err, name)

			registry.register(name, 1)
			assert.Empty(t, logged())
			number, err := registry.number(name)
			require.NoError(t, err)
			assert.Equal(t, 1, number)

			registry.register(name, 2)
			entries := logged()
			require.Len(t, entries, 1)
			assert.Equal(t, level.Warning, entries[0].level)
			assert.Equal(t, name, entries[0].fields["name"])
			number, err = registry.number(name)
			require.NoError(t, err)
			assert.Equal(t, 2, number)
		})
	}
}

func TestRegistryRefusesBadInput(t *testing.T) {
	for kind, registry := range registries {
		t.Run(kind, func(t *testing.T) {
			logged := captureLogs(t)
			registry.register("", 1)
			_, err := registry.number("")
			require.ErrorIs(t, err, dependency.ErrUnknownType)

			name := uniqueName(t)
			registry.registerNil(name)
			_, err = registry.number(name)
			require.ErrorIs(t, err, dependency.ErrUnknownType)

			registry.register(name, 1)
			registry.registerNil(name)
			number, err := registry.number(name)
			require.NoError(t, err)
			assert.Equal(t, 1, number, "a refused factory replaces nothing")

			entries := logged()
			require.Len(t, entries, 3)
			for _, entry := range entries {
				assert.Equal(t, level.Error, entry.level)
			}
		})
	}
}

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	captureLogs(t)
	for kind, registry := range registries {
		t.Run(kind, func(t *testing.T) {
			name := uniqueName(t)
			registry.register(name, 0)
			var wg sync.WaitGroup
			for number := range 8 {
				wg.Go(func() { registry.register(name, number) })
				wg.Go(func() {
					_, err := registry.number(name)
					assert.NoError(t, err)
				})
			}
			wg.Wait()
		})
	}
}

var lastName atomic.Int64

// uniqueName returns a name that was never registered, even if a test runs twice.
func uniqueName(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("%s %d", t.Name(), lastName.Add(1))
}

// logEntry is a logged message.
type logEntry struct {
	level  level.Priority
	fields message.Fields
}

// captureLogs captures log messages until the test ends. The function that it returns
// returns what was logged since its last call.
func captureLogs(t *testing.T) func() []logEntry {
	t.Helper()
	previous := grip.GetSender()
	sender := send.MakeInternalLogger()
	require.NoError(t, grip.SetSender(sender))
	t.Cleanup(func() { require.NoError(t, grip.SetSender(previous)) })
	return func() []logEntry {
		var entries []logEntry
		for sender.HasMessage() {
			m := sender.GetMessage()
			fields, ok := m.Message.Raw().(message.Fields)
			require.True(t, ok, "logged %T", m.Message.Raw())
			entries = append(entries, logEntry{level: m.Priority, fields: fields})
		}
		return entries
	}
}
