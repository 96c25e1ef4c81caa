package dependency

const alwaysName = "always"

// Always is the manager of a job that runs as soon as its edges have ended.
type Always struct {
	T TypeInfo `bson:"type" json:"type" yaml:"type"`
	JobEdges
}

// MakeAlways returns an Always without edges. It allocates nothing.
func MakeAlways() Always {
	return Always{T: TypeInfo{Name: alwaysName}, JobEdges: NewJobEdges()}
}

// NewAlways returns an Always without edges.
func NewAlways() Manager {
	a := MakeAlways()
	return &a
}

// Type returns the type "always".
func (a *Always) Type() TypeInfo { return a.T }

// State returns Ready.
func (a *Always) State() State { return Ready }
