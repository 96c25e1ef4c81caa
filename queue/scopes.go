package queue

import (
	"sync"

	"github.com/mongodb/amboy/queue/internal/scope"
)

// ScopeManager grants scopes, which are named locks, to owners. At most one owner holds a
// scope, and of a limited scope (see amboy.LimitScope) as many as it says. Implementations
// are safe for concurrent use. Each call makes all of its changes or none, and refuses an
// empty owner or scope.
type ScopeManager interface {
	// Acquire grants the scopes to owner, which may hold some of them already. If another
	// owner holds one of them, Acquire returns an error for which
	// amboy.IsDuplicateJobScopeError is true, and which names the scope, its holder and
	// owner. It does not wait for the scope.
	Acquire(owner string, scopes []string) error
	// Release frees the scopes that owner holds. It ignores scopes that are free, and
	// returns an error if another owner holds one.
	Release(owner string, scopes []string) error
	// ReleaseAndAcquire is Release followed by Acquire in one step, so that scopes in
	// both lists pass from one owner to the other without a gap. It returns the error of
	// the step that fails.
	ReleaseAndAcquire(releaseOwner string, releaseScopes []string, acquireOwner string, acquireScopes []string) error
}

// localScopeManager is a ScopeManager in memory.
type localScopeManager struct {
	mu      sync.Mutex
	holders scope.Holders
}

// NewLocalScopeManager returns a ScopeManager that keeps its scopes in memory.
// Its methods do not block.
func NewLocalScopeManager() ScopeManager { return &localScopeManager{} }

func (m *localScopeManager) Acquire(owner string, scopes []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holders.Acquire(owner, scopes)
}

func (m *localScopeManager) Release(owner string, scopes []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holders.Release(owner, scopes)
}

func (m *localScopeManager) ReleaseAndAcquire(releaseOwner string, releaseScopes []string, acquireOwner string, acquireScopes []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holders.ReleaseAndAcquire(releaseOwner, releaseScopes, acquireOwner, acquireScopes)
}
