// Package dependency tells whether a job may run.
//
// A [Manager] belongs to one job. It names other jobs of the same queue that
// must end first (its edges), and then decides by its own rule: whether to run
// the job, to pass it over because its work is done, to wait, or to give up.
// Queues look at a manager's state only when all its edges have ended.
package dependency

// State is what a manager decides about its job.
type State int

// The states of a dependency.
const (
	// Ready means that the job should run.
	Ready State = iota
	// Passed means that the job's work is done already: the job ends as
	// succeeded without being run.
	Passed
	// Blocked means that the job must wait. A queue asks again after a while.
	Blocked
	// Unresolved means that the job can never run: it ends as failed.
	Unresolved
)

// String names the state.
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

// IsValidState is true for the four states.
func IsValidState(s State) bool { return s >= Ready && s <= Unresolved }

// TypeInfo names the type of a manager, under which it is stored, and the
// version of its stored form.
type TypeInfo struct {
	Name    string `json:"name" bson:"name" yaml:"name"`
	Version int    `json:"version" bson:"version" yaml:"version"`
}

// Manager decides whether a job may run. Queues call State from a worker, and
// never from two at once for the same manager; it may read files and take its
// time.
type Manager interface {
	// Type names the manager's registered type.
	Type() TypeInfo
	// State decides about the job. It is asked when all edges have ended.
	State() State
	// AddEdge adds the ID of a job of the same queue that must end before this
	// one runs. It must be called before Put. It returns an error for an ID
	// that is empty or there already.
	AddEdge(id string) error
	// Edges lists the IDs of the jobs that must end first.
	Edges() []string
}

// FailurePolicy is what happens to a job when one of its edges did not succeed.
type FailurePolicy string

// The failure policies.
const (
	// FailOnFailure ends the job as failed, without running it. It is the
	// default.
	FailOnFailure FailurePolicy = ""
	// RunOnFailure runs the job all the same.
	RunOnFailure FailurePolicy = "run"
)

// FailureChooser is implemented by managers that let their job choose a
// FailurePolicy. All managers of this package do, and all that embed JobEdges.
type FailureChooser interface {
	// OnFailure is the chosen policy.
	OnFailure() FailurePolicy
	// SetOnFailure chooses one. It must be called before Put.
	SetOnFailure(FailurePolicy)
}

// Explainer is implemented by managers that can say why their job can't run.
type Explainer interface {
	// Explain gives the reason for the last Blocked or Unresolved state, for a
	// person to read.
	Explain() string
}
