// Package scope records the holders of scopes: named locks with at most one holder each.
package scope

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mongodb/amboy"
)

// Holders records the owner of each held scope. Each change is made in full or not at all.
// The zero value holds nothing and is ready to use. It has no lock of its own: callers that
// share it must hold one.
type Holders struct {
	owners map[string]string
}

// Holder returns the owner of a scope; held is false if the scope is free.
func (h *Holders) Holder(scope string) (owner string, held bool) {
	owner, held = h.owners[scope]
	return owner, held
}

// HeldByOther returns the first of the scopes that is held by an owner other than the given
// one; held is false if there is none.
func (h *Holders) HeldByOther(owner string, scopes []string) (scope string, held bool) {
	for _, wanted := range scopes {
		if holder, ok := h.owners[wanted]; ok && holder != owner {
			return wanted, true
		}
	}
	return "", false
}

// Len returns the number of held scopes.
func (h *Holders) Len() int { return len(h.owners) }

// Acquire gives the scopes to owner, which may hold some of them already. If another owner
// holds one, it returns an *amboy.DuplicateJobError. An empty owner and an empty scope are
// refused.
func (h *Holders) Acquire(owner string, scopes []string) error {
	if err := validate("acquiring", owner, scopes); err != nil {
		return err
	}
	if scope, held := h.HeldByOther(owner, scopes); held {
		return h.taken(scope, owner)
	}
	h.give(owner, scopes)
	return nil
}

// Release frees the scopes; free ones stay free. If another owner holds one, it returns an
// error. An empty owner and an empty scope are refused.
func (h *Holders) Release(owner string, scopes []string) error {
	if err := h.checkRelease(owner, scopes); err != nil {
		return err
	}
	h.free(scopes)
	return nil
}

// ReleaseAndAcquire combines Release and Acquire, so that scopes in both lists pass from one
// owner to the other without a gap. If either would fail, it changes nothing and returns the
// error.
func (h *Holders) ReleaseAndAcquire(releaseOwner string, releaseScopes []string, acquireOwner string, acquireScopes []string) error {
	if err := h.checkRelease(releaseOwner, releaseScopes); err != nil {
		return err
	}
	if err := validate("acquiring", acquireOwner, acquireScopes); err != nil {
		return err
	}
	for _, scope := range acquireScopes {
		holder, held := h.owners[scope]
		if held && holder != acquireOwner && !slices.Contains(releaseScopes, scope) {
			return h.taken(scope, acquireOwner)
		}
	}
	h.free(releaseScopes)
	h.give(acquireOwner, acquireScopes)
	return nil
}

func (h *Holders) checkRelease(owner string, scopes []string) error {
	if err := validate("releasing", owner, scopes); err != nil {
		return err
	}
	if scope, held := h.HeldByOther(owner, scopes); held {
		return fmt.Errorf("releasing scope %q for %q: it is held by %q", scope, owner, h.owners[scope])
	}
	return nil
}

func (h *Holders) taken(scope, owner string) error {
	return &amboy.DuplicateJobError{JobID: owner, Reason: amboy.DuplicateEnqueueScope, Value: scope, ExistingID: h.owners[scope]}
}

func (h *Holders) give(owner string, scopes []string) {
	if h.owners == nil && len(scopes) > 0 {
		h.owners = map[string]string{}
	}
	for _, scope := range scopes {
		h.owners[scope] = owner
	}
}

func (h *Holders) free(scopes []string) {
	for _, scope := range scopes {
		delete(h.owners, scope)
	}
}

// validate refuses an empty owner and an empty scope.
func validate(action, owner string, scopes []string) error {
	if owner == "" {
		return errors.New(action + " scopes: owner must not be empty")
	}
	if slices.Contains(scopes, "") {
		return fmt.Errorf("%s scopes for %q: scope must not be empty", action, owner)
	}
	return nil
}
