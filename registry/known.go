package registry

import (
	"sync"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/registrations"
)

// KnownType is a type whose stored form this process can decode.
type KnownType struct {
	// Name is the name under which it is registered.
	Name string
	// From and To are the first and the last version that can be decoded.
	From, To int
}

// Known lists the types whose stored form a process can decode, sorted by name.
type Known struct {
	Jobs, Managers []KnownType
}

var known = struct {
	sync.Mutex
	version uint64
	found   *Known
}{}

// KnownTypes lists the types of jobs and of dependency managers whose stored form this
// process can decode. It omits a type whose factory panics or returns nil. The result is
// shared and must not be changed. It is safe for concurrent use.
func KnownTypes() *Known {
	version := registrations.Version()
	known.Lock()
	defer known.Unlock()
	if known.found == nil || known.version != version {
		known.found, known.version = findKnown(), version
	}
	return known.found
}

func findKnown() *Known {
	found := &Known{}
	for name := range JobTypeNames() {
		t, ok := getJobType(name)
		if !ok {
			continue // can't happen: types are never removed
		}
		if to, ok := versionOf(func() (int, bool) {
			j := t.factory()
			return versionOfJob(j)
		}); ok {
			from := to
			for t.upgrades[from-1] != nil {
				from--
			}
			found.Jobs = append(found.Jobs, KnownType{Name: name, From: from, To: to})
		}
	}
	for _, name := range dependency.ManagerNames() {
		factory, err := dependency.GetManagerFactory(name)
		if err != nil {
			continue
		}
		if version, ok := versionOf(func() (int, bool) {
			m := factory()
			if m == nil {
				return 0, false
			}
			return m.Type().Version, true
		}); ok {
			found.Managers = append(found.Managers, KnownType{Name: name, From: version, To: version})
		}
	}
	return found
}

func versionOfJob(j amboy.Job) (version int, ok bool) {
	if amboy.IsNilJob(j) {
		return 0, false
	}
	return j.Type().Version, true
}

// versionOf returns the result of ask, which calls the code of a type, or false if that
// panics.
func versionOf(ask func() (int, bool)) (version int, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // Resolve reports the panic
		}
	}()
	return ask()
}
