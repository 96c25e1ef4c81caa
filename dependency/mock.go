package dependency

import "sync"

const mockName = "mock"

// MockDependency is a manager for tests, whose state the test sets. Make it with NewMock.
// Its methods are safe for concurrent use. The exported fields must not be written while
// it is in use; call SetResponse to change Response.
type MockDependency struct {
	// Response is what State returns.
	Response State `bson:"response" json:"response" yaml:"response"`
	// T is what Type returns.
	T TypeInfo `bson:"type" json:"type" yaml:"type"`
	JobEdges

	mu sync.Mutex
}

// NewMock returns a manager of type "mock" that is Ready and has no edges.
func NewMock() *MockDependency {
	return &MockDependency{T: TypeInfo{Name: mockName}, JobEdges: NewJobEdges()}
}

// Type returns T.
func (m *MockDependency) Type() TypeInfo { return m.T }

// State returns Response.
func (m *MockDependency) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Response
}

// SetResponse sets what State returns.
func (m *MockDependency) SetResponse(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Response = s
}

// AddEdge adds the ID of a job that must end first, as JobEdges does.
func (m *MockDependency) AddEdge(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.JobEdges.AddEdge(id)
}

// Edges returns a copy of the IDs.
func (m *MockDependency) Edges() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.JobEdges.Edges()
}

// OnFailure returns what happens if one of the edges does not succeed.
func (m *MockDependency) OnFailure() FailurePolicy {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.JobEdges.OnFailure()
}

// SetOnFailure sets what happens if one of the edges does not succeed.
func (m *MockDependency) SetOnFailure(p FailurePolicy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.JobEdges.SetOnFailure(p)
}

var (
	_ Manager        = (*MockDependency)(nil)
	_ FailureChooser = (*MockDependency)(nil)
)
