package driver

import (
	"fmt"
	"strconv"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

// Kind is what a process must know to run a record: the types of the job and of its
// dependency manager, each with the version under which it was stored. Kinds can be
// compared with ==.
type Kind struct {
	// Type and Version describe the job.
	Type    string `json:"type"`
	Version int    `json:"version"`
	// Manager and ManagerVersion describe the dependency manager. Manager is empty for a
	// job without one, and for the manager "always" of package dependency, which every
	// process knows.
	Manager        string `json:"manager,omitempty"`
	ManagerVersion int    `json:"manager_version,omitempty"`
}

// always is the manager that every process knows.
var always = registry.PlainDependency(amboy.BSON)

// KindOf returns the kind of a record.
func KindOf(r *Record) Kind {
	k := Kind{Type: r.Type, Version: r.Version}
	if d := r.Dependency; d != nil && (d.Type != always.Type || d.Version != always.Version) {
		k.Manager, k.ManagerVersion = d.Type, d.Version
	}
	return k
}

// Key returns a text that is unique to the kind, for stores that find records by kind.
// The format must not change, because keys are stored.
func (k Kind) Key() string {
	key := strconv.Quote(k.Type) + "/" + strconv.Itoa(k.Version)
	if k.Manager != "" {
		key += "+" + strconv.Quote(k.Manager) + "/" + strconv.Itoa(k.ManagerVersion)
	}
	return key
}

// TypeOfKey returns the job type of a kind by its Key; empty if the text is no key.
func TypeOfKey(key string) string {
	quoted, err := strconv.QuotedPrefix(key)
	if err != nil {
		return ""
	}
	jobType, err := strconv.Unquote(quoted)
	if err != nil {
		return ""
	}
	return jobType
}

// String describes the kind to an operator.
func (k Kind) String() string {
	text := fmt.Sprintf("job type %q version %d", k.Type, k.Version)
	if k.Manager != "" {
		text += fmt.Sprintf(" with dependency type %q version %d", k.Manager, k.ManagerVersion)
	}
	return text
}
