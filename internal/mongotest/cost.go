package mongotest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Costs are what a server has paid since it was started or ResetCosts was called.
type Costs struct {
	// Commands are the commands that it has run, by name, without those that drivers send
	// for their connections and sessions.
	Commands map[string]int64
	// Writes are what was written, by the name of the collection. The writes of retryable
	// writes and transactions to the server's own collection are among them, under
	// SessionsCollection.
	Writes map[string]Writes
	// Examined is what queries and writes have examined.
	Examined Examined
	// Conflicts is the number of times that a write met a document or a unique key that
	// another transaction had written.
	Conflicts int64
	// Journaled is the number of commands that wrote something and waited until the journal
	// of the majority had it.
	Journaled int64
}

// Writes are what was written to a collection. A write that changed nothing costs nothing.
type Writes struct {
	// Many is the number of update statements that may change many documents, and ByMany
	// the number of documents that they wrote.
	Many, ByMany int64
	// Inserted is the number of documents that were inserted, except by upserts. Singly is
	// the number of documents that all other statements wrote.
	Inserted, Singly int64
	// Keys is the number of index keys that were inserted and deleted, by the name of the
	// index. Indexes without any are left out.
	Keys map[string]int64
}

// SessionsCollection is the collection in which a server remembers the last retryable write
// or transaction of each session. Each of them writes a document there.
const SessionsCollection = "config.transactions"

// Statements is the number of update statements, if a document that was written in another
// way counts as a statement. Inserts do not count.
func (w Writes) Statements() int64 { return w.Many + w.Singly }

// Documents is the number of documents that were written.
func (w Writes) Documents() int64 { return w.ByMany + w.Inserted + w.Singly }

// AllKeys is the number of index keys that were inserted and deleted.
func (w Writes) AllKeys() (n int64) {
	for _, keys := range w.Keys {
		n += keys
	}
	return n
}

// Sent is the number of commands, without getMore.
func (c Costs) Sent() (n int64) {
	for name, sent := range c.Commands {
		if name != "getMore" {
			n += sent
		}
	}
	return n
}

// Statements is the number of update statements on all collections (see Writes).
func (c Costs) Statements() (n int64) {
	for _, w := range c.Writes {
		n += w.Statements()
	}
	return n
}

// Outside is the number of documents that were written to other collections than one.
func (c Costs) Outside(collection string) (n int64) {
	for name, w := range c.Writes {
		if name != collection {
			n += w.Documents()
		}
	}
	return n
}

// String lists the costs, for the messages of tests.
func (c Costs) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "commands: %v; examined: %d keys, %d documents; conflicts: %d; journaled: %d", c.Commands,
		c.Examined.Keys, c.Examined.Documents, c.Conflicts, c.Journaled)
	for _, name := range slices.Sorted(maps.Keys(c.Writes)) {
		w := c.Writes[name]
		fmt.Fprintf(&b, "\n%s: inserted %d, by %d updateMany %d, singly %d; %d keys: %v", name, w.Inserted, w.Many, w.ByMany, w.Singly, w.AllKeys(), w.Keys)
	}
	return b.String()
}

// Costs returns what the server has paid.
func (s *Server) Costs() Costs {
	s.mu.Lock()
	defer s.mu.Unlock()
	costs := s.costs.Costs
	costs.Commands, costs.Writes = maps.Clone(costs.Commands), map[string]Writes{}
	costs.Examined.Keys -= s.costs.examinedBefore.Keys
	costs.Examined.Documents -= s.costs.examinedBefore.Documents
	for name, w := range s.costs.writes {
		if w.Documents() == 0 && w.Many == 0 {
			continue
		}
		written := *w
		written.Keys = maps.Clone(w.Keys)
		maps.DeleteFunc(written.Keys, func(_ string, keys int64) bool { return keys == 0 })
		costs.Writes[name] = written
	}
	return costs
}

// ResetCosts begins to count anew.
func (s *Server) ResetCosts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	examined := s.costs.Examined
	for _, w := range s.costs.writes {
		*w = Writes{Keys: map[string]int64{}}
	}
	s.costs.Costs = Costs{Commands: map[string]int64{}, Examined: examined}
	s.costs.examinedBefore = examined
}

// costs are the costs of a server, and those of its collections.
type costs struct {
	Costs
	examinedBefore Examined // at the last reset
	writes         map[string]*Writes
}

func newCosts() *costs {
	return &costs{Costs: Costs{Commands: map[string]int64{}}, writes: map[string]*Writes{}}
}

// of returns the costs of a collection.
func (c *costs) of(collection string) *Writes {
	w := c.writes[collection]
	if w == nil {
		w = &Writes{Keys: map[string]int64{}}
		c.writes[collection] = w
	}
	return w
}

// command counts a command.
func (c *costs) command(name string) {
	if !slices.Contains(uncounted, name) {
		c.Commands[name]++
	}
}

// write counts a write of a document.
func (c *costs) write(on *collection, tx *transaction, before, after *document, kind string) {
	w := c.of(on.name)
	switch {
	case kind == "insert" && !tx.upserts:
		w.Inserted++
	case tx.many:
		w.ByMany++
	default:
		w.Singly++
	}
	for _, x := range on.indexes {
		was, is := before.keysIn(x), after.keysIn(x)
		if n := differing(was, is) + differing(is, was); n > 0 {
			w.Keys[x.name] += n
		}
	}
}

// keysIn returns the keys of a document, or none if there is no document.
func (d *document) keysIn(x *index) [][]any {
	if d == nil {
		return nil
	}
	return d.keys.of(x)
}

// differing returns the number of keys that are not among others.
func differing(keys, others [][]any) (n int64) {
	for _, key := range keys {
		if !slices.ContainsFunc(others, func(other []any) bool { return sameKey(key, other) }) {
			n++
		}
	}
	return n
}
