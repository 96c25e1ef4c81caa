// Package scope records the holders of scopes: named locks with one holder each, or with as many
// as their limit says.
package scope

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mongodb/amboy"
)

// Key returns what the scopes that share their holders have in common, and the limit on the
// number of holders. The key of a scope that is not limited is its name.
func Key(scope string) (key string, limit int) {
	_, limit, limited := amboy.ScopeLimit(scope)
	if !limited {
		return scope, 1
	}
	return scope[:strings.LastIndexByte(scope, ' ')], limit
}

// Of returns the scope of a key among some scopes; empty if there is none.
func Of(key string, scopes []string) string {
	for _, scope := range scopes {
		if k, _ := Key(scope); k == key {
			return scope
		}
	}
	return ""
}

// Holders records the owners of each held scope. The limited scopes of a key (see
// amboy.LimitScope) have the same owners. Each change is made in full or not at all. The zero
// value holds nothing and is ready to use. It has no lock of its own: callers that share it must
// hold one.
type Holders struct {
	owners map[string]string
	shared map[string]map[string]bool // the owners of limited scopes, by key
}

// Holds reports whether owner holds a scope.
func (h *Holders) Holds(owner, scope string) bool {
	if key, _ := Key(scope); key != scope {
		return h.shared[key][owner]
	}
	holder, held := h.owners[scope]
	return held && holder == owner
}

// Others returns the number of owners of a scope except the given one.
func (h *Holders) Others(owner, scope string) int {
	key, _ := Key(scope)
	n := len(h.shared[key])
	if _, held := h.owners[scope]; held {
		n = 1
	}
	if n > 0 && h.Holds(owner, scope) {
		n--
	}
	return n
}

// Of returns the owners of a scope, in no order.
func (h *Holders) Of(scope string) []string {
	if holder, held := h.owners[scope]; held {
		return []string{holder}
	}
	key, _ := Key(scope)
	return slices.Collect(maps.Keys(h.shared[key]))
}

// Full returns the first of the scopes that has no room for owner, because others hold it; full
// is false if there is none.
func (h *Holders) Full(owner string, scopes []string) (scope string, full bool) {
	for _, wanted := range scopes {
		if h.isFull(owner, wanted, nil) {
			return wanted, true
		}
	}
	return "", false
}

// isFull reports whether a scope has no room for owner, apart from an owner who is leaving.
func (h *Holders) isFull(owner, scope string, leaving *string) bool {
	_, limit := Key(scope)
	others := h.Others(owner, scope)
	if leaving != nil && *leaving != owner && h.Holds(*leaving, scope) {
		others--
	}
	return others >= limit
}

// Len returns the number of held scopes.
func (h *Holders) Len() int { return len(h.owners) + len(h.shared) }

// Acquire gives the scopes to owner, which may hold some of them already. If others hold one, it
// returns an *amboy.DuplicateJobError. An empty owner and an empty scope are refused.
func (h *Holders) Acquire(owner string, scopes []string) error {
	if err := validate("acquiring", owner, scopes); err != nil {
		return err
	}
	if scope, full := h.Full(owner, scopes); full {
		return h.taken(scope, owner)
	}
	h.give(owner, scopes)
	return nil
}

// Release takes the scopes from owner; free ones stay free. If another owner holds one that is
// not limited, it returns an error. An empty owner and an empty scope are refused.
func (h *Holders) Release(owner string, scopes []string) error {
	if err := h.checkRelease(owner, scopes); err != nil {
		return err
	}
	h.free(owner, scopes)
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
		var leaving *string
		if key, _ := Key(scope); Of(key, releaseScopes) != "" {
			leaving = &releaseOwner
		}
		if h.isFull(acquireOwner, scope, leaving) {
			return h.taken(scope, acquireOwner)
		}
	}
	h.free(releaseOwner, releaseScopes)
	h.give(acquireOwner, acquireScopes)
	return nil
}

func (h *Holders) checkRelease(owner string, scopes []string) error {
	if err := validate("releasing", owner, scopes); err != nil {
		return err
	}
	for _, scope := range scopes {
		if holder, held := h.owners[scope]; held && holder != owner {
			return fmt.Errorf("releasing scope %q for %q: it is held by %q", scope, owner, holder)
		}
	}
	return nil
}

func (h *Holders) taken(scope, owner string) error {
	existing, held := h.owners[scope]
	if !held {
		key, _ := Key(scope)
		existing = slices.Min(slices.Collect(maps.Keys(h.shared[key])))
	}
	return &amboy.DuplicateJobError{JobID: owner, Reason: amboy.DuplicateEnqueueScope, Value: scope, ExistingID: existing}
}

func (h *Holders) give(owner string, scopes []string) {
	for _, scope := range scopes {
		key, _ := Key(scope)
		if key == scope {
			if h.owners == nil {
				h.owners = map[string]string{}
			}
			h.owners[scope] = owner
			continue
		}
		if h.shared == nil {
			h.shared = map[string]map[string]bool{}
		}
		if h.shared[key] == nil {
			h.shared[key] = map[string]bool{}
		}
		h.shared[key][owner] = true
	}
}

func (h *Holders) free(owner string, scopes []string) {
	for _, scope := range scopes {
		key, _ := Key(scope)
		if key == scope {
			delete(h.owners, scope)
			continue
		}
		delete(h.shared[key], owner)
		if len(h.shared[key]) == 0 {
			delete(h.shared, key)
		}
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
