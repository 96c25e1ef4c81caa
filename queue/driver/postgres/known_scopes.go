package postgres

import (
	"cmp"
	"slices"

	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/scope"
)

// knownScopes is what a transaction has read of the scopes of a queue, and what it has not written yet. What was read
// stays true: only transactions with the lock of the queue change its scopes, and they do so by the methods of changes.
// So a change of many records reads their scopes in one round trip, and writes them with a few statements.
type knownScopes struct {
	uses    map[string]*uses    // by usesFrom
	waiters map[string]*waiters // by key
	unwritten
}

// uses are the holders of a scope, and the records that it is promised to.
type uses struct {
	holders  []string // job IDs
	promises []promised
}

// promised is a record that a scope is promised to, and the limit of its scope.
type promised struct {
	seq             int64
	priority, limit int
}

// compare sorts promised records in the order in which they run.
func (p promised) compare(q promised) int {
	return cmp.Or(cmp.Compare(q.priority, p.priority), cmp.Compare(p.seq, q.seq))
}

// waiters are the first records that wait for the scope of a key, in the order in which they run.
type waiters struct {
	first []*job
	isAll bool
}

// unwritten are changes of the tables of scopes. The rows that are removed are removed first.
type unwritten struct {
	freed    [][2]string // uses, and the jobs that held them
	held     map[string]string
	revoked  map[string]bool // uses that are promised no more
	promised map[string]promised
}

// askScopes queues the queries for what is not known of scopes, each of which at most so many jobs are going to free.
func (c *changes) askScopes(queue int32, names []string, freed int) {
	c.askUses(queue, names)
	var keys []string
	var wanted []int64
	for _, name := range names {
		if key, limit := scope.Key(name); c.scopes.waiters[key] == nil && !slices.Contains(keys, key) {
			keys, wanted = append(keys, key), append(wanted, waitersFor(min(limit, freed)))
		}
	}
	c.askWaiters(queue, keys, wanted)
}

// waitersFor returns the number of waiters to read of a scope that some jobs free: one for each, and another, for which
// the scope has no room then.
func waitersFor(freed int) int64 { return int64(freed) + 1 }

// askUses queues the query for the uses of scopes that are not known.
func (c *changes) askUses(queue int32, names []string) {
	var from, to []string
	for _, name := range names {
		if first := usesFrom(name); c.scopes.uses[first] == nil && !slices.Contains(from, first) {
			from, to = append(from, first), append(to, usesTo(name))
		}
	}
	if len(from) == 0 {
		return
	}
	c.writeScopes()
	if c.scopes.uses == nil {
		c.scopes.uses = map[string]*uses{}
	}
	for _, first := range from {
		c.scopes.uses[first] = &uses{}
	}
	c.ask(usesOf, func(r *row) error {
		u := c.scopes.uses[from[r.integer()-1]]
		holder, p := r.text(), promised{r.integer(), r.int(), r.int()}
		if p.seq != 0 {
			u.promises = append(u.promises, p)
		} else {
			u.holders = append(u.holders, holder)
		}
		return nil
	}, queue, from, to)
}

// askWaiters queues the query for the first waiters of keys, as many as wanted of each.
func (c *changes) askWaiters(queue int32, keys []string, wanted []int64) {
	if len(keys) == 0 {
		return
	}
	if c.scopes.waiters == nil {
		c.scopes.waiters = map[string]*waiters{}
	}
	for _, key := range keys {
		c.scopes.waiters[key] = &waiters{isAll: true}
	}
	c.ask(firstWaiters, func(r *row) error {
		i := r.integer() - 1
		w := c.scopes.waiters[keys[i]]
		w.first = append(w.first, c.readJob(r))
		w.isAll = int64(len(w.first)) < wanted[i]
		return nil
	}, queue, keys, wanted)
}

// know reads what is not known of scopes.
func (c *changes) know(queue int32, names []string) error {
	queued := len(c.queued)
	c.askScopes(queue, names, 1)
	return c.sendIfMore(queued)
}

// knowUses is know without the waiters.
func (c *changes) knowUses(queue int32, names []string) error {
	queued := len(c.queued)
	c.askUses(queue, names)
	return c.sendIfMore(queued)
}

// usesOf returns the uses of a scope.
func (c *changes) usesOf(queue int32, name string) (*uses, error) {
	err := c.knowUses(queue, []string{name})
	return c.scopes.uses[usesFrom(name)], err
}

// others returns the number of holders besides a job, and one of them.
func (u *uses) others(jobID string) (n int, holder string) {
	for _, h := range u.holders {
		if h == jobID {
			continue
		}
		if n == 0 || h < holder {
			holder = h
		}
		n++
	}
	return n, holder
}

// hold makes a job a holder of a scope.
func (c *changes) hold(name, jobID string) {
	at := use(name, jobID)
	if c.scopes.held == nil {
		c.scopes.held = map[string]string{}
	}
	c.scopes.held[at] = jobID
	u := c.scopes.uses[usesFrom(name)]
	switch {
	case u == nil:
	case at == name: // it has one holder
		u.holders = []string{jobID}
	case !slices.Contains(u.holders, jobID):
		u.holders = append(u.holders, jobID)
	}
}

// unhold frees a scope if a job holds it.
func (c *changes) unhold(name, jobID string) {
	at := use(name, jobID)
	if holder, some := c.scopes.held[at]; some && holder != jobID {
		return
	}
	delete(c.scopes.held, at)
	c.scopes.freed = append(c.scopes.freed, [2]string{at, jobID})
	if u := c.scopes.uses[usesFrom(name)]; u != nil {
		u.holders = slices.DeleteFunc(u.holders, func(h string) bool { return h == jobID })
	}
}

// promise promises a scope to a record.
func (c *changes) promise(name string, j *job) {
	_, limit := scope.Key(name)
	p := promised{j.Seq, j.Priority, limit}
	if c.scopes.promised == nil {
		c.scopes.promised = map[string]promised{}
	}
	c.scopes.promised[use(name, j.Seq)] = p
	if u := c.scopes.uses[usesFrom(name)]; u != nil {
		u.promises = append(u.promises, p)
	}
}

// revoke takes back the promise of a scope to a record.
func (c *changes) revoke(name string, seq int64) {
	at := use(name, seq)
	delete(c.scopes.promised, at)
	if c.scopes.revoked == nil {
		c.scopes.revoked = map[string]bool{}
	}
	c.scopes.revoked[at] = true
	if u := c.scopes.uses[usesFrom(name)]; u != nil {
		u.promises = slices.DeleteFunc(u.promises, func(p promised) bool { return p.seq == seq })
	}
}

// writeScopes queues the statements for what is not written yet.
func (c *changes) writeScopes() {
	w := c.scopes.unwritten
	c.scopes.unwritten = unwritten{}
	var names, ids []string
	for _, f := range w.freed {
		names, ids = append(names, f[0]), append(ids, f[1])
	}
	if len(names) > 0 {
		c.exec(dropHolders, c.of, names, ids)
	}
	names, ids = nil, nil
	for name, id := range w.held {
		names, ids = append(names, name), append(ids, id)
	}
	if len(names) > 0 {
		c.exec(addHolders, c.of, names, ids)
	}
	names = nil
	for name := range w.revoked {
		names = append(names, name)
	}
	if len(names) > 0 {
		c.exec(dropPromises, c.of, names)
	}
	names = nil
	var seqs, limits []int64
	for name, p := range w.promised {
		names, seqs, limits = append(names, name), append(seqs, p.seq), append(limits, int64(p.limit))
	}
	if len(names) > 0 {
		c.exec(addPromises, c.of, names, seqs, limits)
	}
}

// firstWaiter returns the record that is the first to get the scope of a key; nil if no record waits for it.
func (c *changes) firstWaiter(queue int32, key string) (*job, error) {
	w := c.scopes.waiters[key]
	if w == nil || (len(w.first) == 0 && !w.isAll) {
		c.askWaiters(queue, []string{key}, []int64{waitersFor(1)})
		if err := c.send(); err != nil {
			return nil, err
		}
		w = c.scopes.waiters[key]
	}
	if len(w.first) == 0 {
		return nil, nil
	}
	return w.first[0], nil
}

// moved updates the known waiters when a record moves to another place. key is that of the scope that it waits for there,
// or empty.
func (k *knownScopes) moved(j *job, key string) {
	if j.Place == table.ScopeBlocked {
		for _, w := range k.waiters {
			w.first = slices.DeleteFunc(w.first, func(other *job) bool { return other.Seq == j.Seq })
		}
	}
	w := k.waiters[key]
	if key == "" || w == nil {
		return
	}
	at, _ := slices.BinarySearchFunc(w.first, j, func(other, j *job) int { return other.Compare(&j.Job) })
	if at < len(w.first) || w.isAll {
		w.first = slices.Insert(w.first, at, j)
	}
}
