package queue

import (
	"sync"

	"github.com/mongodb/amboy/queue/internal/scope"
)

// ScopeManager gives scopes, which are named locks, to owners. Of all owners
// one at most holds a scope. Implementations are safe for concurrent use. Every
// call changes all that it was asked to change or nothing, and refuses an empty
// owner and an empty scope.
type ScopeManager interface {
	// Acquire gives the scopes to owner, who may hold some of them already.
	// Where somebody else holds one of them it returns an error, for which
	// amboy.IsDuplicateJobScopeError is true, that names the scope, its holder
	// and owner. It does not wait for the scope.
	Acquire(owner string, scopes []string) error
	// Release frees the scopes that owner holds. Those that nobody holds stay
	// free; where somebody else holds one it returns an error.
	Release(owner string, scopes []string) error
	// ReleaseAndAcquire is Release and then Acquire in one step, so that scopes
	// in both lists pass from one owner to the other without a gap. It returns
	// the error of the one that fails.
	ReleaseAndAcquire(releaseOwner string, releaseScopes []string, acquireOwner string, acquireScopes []string) error
}

// localScopeManager is a ScopeManager in this process's memory.
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
