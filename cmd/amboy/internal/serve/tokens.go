package serve

import (
	"crypto/sha256"
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
	Queues []string `json:"queues"`

	name string // empty for the token of the token file
	// login has the sessions of the links that holders of the token have made.
	login *rest.Login
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

// digest is the digest of a token. Tokens are looked up by it, so that the time of that reveals nothing about them.
type digest [sha256.Size]byte

func digestOf(token string) digest { return sha256.Sum256([]byte(token)) }

// grants are the grants in force. A value is immutable.
type grants struct {
	all     []*grant // that of the token file first
	byToken map[digest]*grant
}

// newGrants returns the grants that are in force after others. The sessions of a token last until it changes,
// because any holder could make links.
func newGrants(all []*grant, before *grants) (*grants, error) {
	now := &grants{all: all, byToken: map[digest]*grant{}}
	for _, g := range all {
		key := digestOf(g.Token)
		if other, known := now.byToken[key]; known {
			return nil, fmt.Errorf("%s and %s must not be equal", other, g)
		}
		now.byToken[key] = g
	}
	for key, g := range now.byToken {
		last := before.byToken[key]
		switch {
		case last == g:
		case last != nil && last.name == g.name:
			g.login = last.login
		default:
			g.login = rest.NewLogin("")
		}
	}
	return now, nil
}

// withToken returns the grant of a request with a token; nil for none.
func (g *grants) withToken(r *http.Request) *grant {
	token, _ := bearer.Token(r)
	return g.byToken[digestOf(token)]
}

// of returns the grant of a request with a token or a session; nil for none.
func (g *grants) of(r *http.Request) *grant {
	if found := g.withToken(r); found != nil || len(r.Cookies()) == 0 {
		return found
	}
	for _, one := range g.all {
		if one.login.Authorize(r, rest.Access{}) == nil {
			return one
		}
	}
	return nil
}
