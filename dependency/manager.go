// Package dependency decides whether a job may run.
//
// A [Manager] belongs to one job. It lists other jobs of the same queue that must end
// first, its edges. After that it decides by its own rule: to run the job, to skip it
// because its work is already done, to wait, or to give up. Queues ask for a manager's
// state only after all its edges have ended.
package dependency

// State is a manager's decision about its job.
type State int

// The states of a dependency.
const (
	// Ready means that the job should run.
	Ready State = iota
	// Passed means that the job's work is already done: the job ends as succeeded without
	// running.
	Passed
	// Blocked means that the job must wait. The queue asks again later.
	Blocked
	// Unresolved means that the job can never run: it ends as failed.
	Unresolved
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Ready:
		return "ready"
	case Passed:
		return "passed"
	case Blocked:
		return "blocked"
	case Unresolved:
		return "unresolved"
	default:
		return "invalid"
	}
}

// IsValidState reports whether s is one of the four states.
func IsValidState(s State) bool { return s >= Ready && s <= Unresolved }

// TypeInfo is the name under which a manager's type is stored, and the version of its
// stored form.
type TypeInfo struct {
	Name    string `json:"name" bson:"name" yaml:"name"`
	Version int    `json:"version" bson:"version" yaml:"version"`
}

// Manager decides whether a job may run. Queues call State from a worker, never
// concurrently for the same manager; it may read files and take time.
type Manager interface {
	// Type returns the manager's registered type.
	Type() TypeInfo
	// State returns the decision about the job. It is called after all edges have ended.
	State() State
	// AddEdge adds the ID of a job of the same queue that must end before this one runs. It
	// must be called before Put. It returns an error if the ID is empty or was already
	// added.
	AddEdge(id string) error
	// Edges lists the IDs of the jobs that must end first.
	Edges() []string
}

// FailurePolicy is what happens to a job if one of its edges does not succeed.
type FailurePolicy string

// The failure policies.
const (
	// FailOnFailure ends the job as failed, without running it. It is the default.
	FailOnFailure FailurePolicy = ""
	// RunOnFailure runs the job nevertheless.
	RunOnFailure FailurePolicy = "run"
)

// FailureChooser is implemented by managers that support a FailurePolicy: all managers of
// this package, and all that embed JobEdges.
type FailureChooser interface {
	// OnFailure returns the policy.
	OnFailure() FailurePolicy
	// SetOnFailure sets the policy. It must be called before Put.
	SetOnFailure(FailurePolicy)
}

// Explainer is implemented by managers that can explain why their job can't run.
type Explainer interface {
	// Explain returns the reason for the last Blocked or Unresolved state, for operators.
	Explain() string
}
