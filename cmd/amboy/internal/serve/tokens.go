package serve

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/mongodb/amboy/internal/bearer"
	"github.com/mongodb/amboy/rest"
)

const (
	// minToken is the minimum length of a token.
	minToken = 16
	// maxTokens is the maximum number of tokens in a file.
	maxTokens = 1000
	// maxTokenName is the maximum length of the name of a token.
	maxTokenName = 100
)

// grant is a token, and what it grants. Its JSON is an entry of the file of tokens.
type grant struct {
	// Token is one word of at least minToken characters.
	Token string `json:"token"`
	// May lists the actions, as rest.Access has them; "all" allows all.
	May []string `json:"may"`
	// Queues lists the queues on which it may do so. An asterisk at the end stands for any text. If the list
	// is absent, it may do so on all queues.
	Queues patterns `json:"queues"`

	name string // empty for the token of the token file
}

// patterns are names of queues, some with an asterisk at the end.
type patterns []string

// UnmarshalJSON implements json.Unmarshaler. A list that is null is empty: it must not mean all queues.
func (p *patterns) UnmarshalJSON(text []byte) error {
	list := []string{}
	if string(text) != "null" {
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
	}
	*p = list
	return nil
}

// String names the token.
func (g *grant) String() string {
	if g.name == "" {
		return "the token of the token file"
	}
	return fmt.Sprintf("token %q", g.name)
}

// everything is what a grant lists that allows all actions.
const everything = "all"

func checkToken(token string) error {
	if len(token) < minToken || strings.ContainsAny(token, " \t\r\n") {
		return fmt.Errorf("a token must be one word of at least %d characters", minToken)
	}
	return nil
}

// parseGrants parses a file of tokens.
func parseGrants(content []byte) ([]*grant, error) {
	var byName map[string]*grant
	if err := parseJSON(content, &byName); err != nil {
		return nil, fmt.Errorf("decoding the tokens: %w", err)
	}
	if byName == nil {
		return nil, errors.New("the file must contain an object, and not null")
	}
	if len(byName) > maxTokens {
		return nil, fmt.Errorf("there must be at most %d tokens (are %d)", maxTokens, len(byName))
	}
	var all []*grant
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		g := byName[name]
		if err := g.validate(name); err != nil {
			return nil, fmt.Errorf("token %q: %w", name, err)
		}
		g.name = name
		all = append(all, g)
	}
	return all, nil
}

func (g *grant) validate(name string) error {
	if g == nil {
		return errors.New("it must be an object")
	}
	if name == "" || len(name) > maxTokenName {
		return fmt.Errorf("its name must have from 1 to %d bytes", maxTokenName)
	}
	if err := checkToken(g.Token); err != nil {
		return err
	}
	if len(g.May) == 0 {
		return errors.New("may must list what it allows")
	}
	for _, action := range g.May {
		if !slices.Contains(actions(), action) {
			return fmt.Errorf("may must list some of %q (has %q)", actions(), action)
		}
	}
	if g.Queues != nil && len(g.Queues) == 0 {
		return errors.New("queues must list queues, or be absent for all")
	}
	for _, pattern := range g.Queues {
		if pattern == "" || strings.Contains(strings.TrimSuffix(pattern, "*"), "*") {
			return fmt.Errorf("queues must list names, with an asterisk at most at the end (has %q)", pattern)
		}
	}
	return nil
}

// actions returns what a grant may list.
func actions() []string {
	all := []string{everything}
	for _, action := range rest.Actions() {
		all = append(all, string(action))
	}
	return all
}

// allows returns an error if a grant does not allow an access.
func (g *grant) allows(what rest.Access) error {
	switch {
	case !slices.Contains(g.May, everything) && !slices.Contains(g.May, string(what.Action)):
	case g.Queues == nil:
		return nil
	case !what.AllQueues && slices.ContainsFunc(g.Queues, func(pattern string) bool { return matches(pattern, what.Queue) }):
		return nil
	}
	return fmt.Errorf("%s does not allow this", g)
}

func matches(pattern, queue string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(queue, prefix)
	}
	return queue == pattern
}

// digestOf returns the digest of a token. Tokens are looked up by it, so that the time of that reveals nothing about
// them.
func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return string(sum[:])
}

// grants are the grants in force. A value is immutable.
type grants struct {
	all      []*grant // that of the token file first
	byDigest map[string]*grant
}

func newGrants(all []*grant) (*grants, error) {
	made := &grants{all: all, byDigest: map[string]*grant{}}
	for _, g := range all {
		key := digestOf(g.Token)
		if other, known := made.byDigest[key]; known {
			return nil, fmt.Errorf("%s and %s must not be equal", other, g)
		}
		made.byDigest[key] = g
	}
	return made, nil
}

// withToken returns the grant of a request with a token; nil for none.
func (g *grants) withToken(r *http.Request) *grant {
	token, _ := bearer.Token(r)
	return g.byDigest[digestOf(token)]
}
