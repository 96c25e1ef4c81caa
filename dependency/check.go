package dependency

import "fmt"

const checkName = "check"

// CheckFunc returns the state of a job. Its argument is the job's edges.
type CheckFunc func([]string) State

// CheckFactory makes a CheckFunc.
type CheckFactory func() CheckFunc

// check calls a registered function.
type check struct {
	CheckName string   `bson:"check_name" json:"check_name" yaml:"check_name"`
	T         TypeInfo `bson:"type" json:"type" yaml:"type"`
	JobEdges

	decide CheckFunc
	reason string
}

// NewCheckManager returns a manager whose state is the result of the function registered
// under name with RegisterCheck. The function is looked up when it is first needed. If it
// is not registered by then, the state is Unresolved.
func NewCheckManager(name string) Manager {
	return &check{
		CheckName: name,
		T:         TypeInfo{Name: checkName},
		JobEdges:  NewJobEdges(),
	}
}

func (c *check) Type() TypeInfo { return c.T }

func (c *check) State() State {
	if c.decide == nil {
		factory, err := GetCheckFactory(c.CheckName)
		if err != nil {
			c.reason = err.Error()
			return Unresolved
		}
		if c.decide = factory(); c.decide == nil {
			c.reason = fmt.Sprintf("the factory of check %q returned nil", c.CheckName)
			return Unresolved
		}
	}
	state := c.decide(c.Edges())
	if !IsValidState(state) {
		c.reason = fmt.Sprintf("check %q returned the invalid state %d", c.CheckName, state)
		return Unresolved
	}
	c.reason = fmt.Sprintf("check %q returned %s", c.CheckName, state)
	return state
}

func (c *check) Explain() string { return c.reason }
