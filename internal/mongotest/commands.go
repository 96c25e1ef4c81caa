package mongotest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/event"
)

// Commands counts the commands that clients send, including getMore and each retry. It
// excludes hello, endSessions and configureFailPoint, which drivers send for their
// connections and sessions and tests send to set faults. The zero value is ready to use.
// All its methods are safe for concurrent use.
type Commands struct {
	mu     sync.Mutex
	counts map[sentCommand]int
}

// sentCommand is the name of a command and its collection, which is empty for some
// commands.
type sentCommand struct{ name, collection string }

var uncounted = []string{"hello", "isMaster", "ismaster", "endSessions", "configureFailPoint"}

// Monitor returns a monitor for the options of a client whose commands must be counted.
func (c *Commands) Monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(_ context.Context, started *event.CommandStartedEvent) {
		if slices.Contains(uncounted, started.CommandName) {
			return
		}
		field := started.CommandName
		if field == "getMore" {
			field = "collection"
		}
		collection, _ := started.Command.Lookup(field).StringValueOK() // a number in other commands
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.counts == nil {
			c.counts = map[sentCommand]int{}
		}
		c.counts[sentCommand{started.CommandName, collection}]++
	}}
}

// Reset resets all counts to zero.
func (c *Commands) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.counts)
}

// Total returns the number of commands sent.
func (c *Commands) Total() int {
	return c.sum(func(sentCommand) bool { return true })
}

// Named returns the number of commands sent with any of the names.
func (c *Commands) Named(names ...string) int {
	return c.sum(func(sent sentCommand) bool { return slices.Contains(names, sent.name) })
}

// On returns the number of commands sent about a collection, either all or those with any
// of the names.
func (c *Commands) On(collection string, names ...string) int {
	return c.sum(func(sent sentCommand) bool {
		return sent.collection == collection && (len(names) == 0 || slices.Contains(names, sent.name))
	})
}

// ByName returns the number of commands sent by name.
func (c *Commands) ByName() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	byName := map[string]int{}
	for sent, n := range c.counts {
		byName[sent.name] += n
	}
	return byName
}

// String lists the counts, for the messages of tests.
func (c *Commands) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for sent, n := range c.counts {
		lines = append(lines, fmt.Sprintf("%s %s: %d", sent.name, sent.collection, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func (c *Commands) sum(counted func(sentCommand) bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for sent, n := range c.counts {
		if counted(sent) {
			total += n
		}
	}
	return total
}
