package simulation

import (
	"cmp"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// digest identifies a state of a small world. Two states have the same digest only if the
// same can follow from them:
//
//   - Times are relative to now, and all times in the distant past are equal.
//   - The count of a lease is compared with the stored one, and its owner is a process or a
//     dead process: the life of the process does not matter.
//   - Numbers that only identify calls and timers are replaced by what they identify.
//   - The processes may have changed places.
type digest [16]byte

// digest returns the digest of everything that the future of a world depends on.
func (w *smallWorld) digest(d *digester) (least digest) {
	for first := range w.processes {
		sum := w.digestFrom(d, first)
		if first == 0 || slices.Compare(sum[:], least[:]) < 0 {
			least = sum
		}
	}
	return least
}

// digestFrom returns the digest with the processes in their cyclic order, beginning with
// first.
func (w *smallWorld) digestFrom(d *digester, first int) digest {
	d.reset(w, first)
	d.int(w.faults)
	d.store()
	n := len(w.processes)
	for i := range n {
		d.process(w.processes[(first+i)%n])
	}
	d.agenda(w.agenda.all)
	all := sha256.Sum256(d.out)
	return digest(all[:16])
}

// digester writes a state. Pointers are numbered in the order in which they occur.
type digester struct {
	w       *smallWorld
	out     []byte
	places  []int // of the processes
	known   map[uintptr]int
	calls   map[callOf]int
	counts  map[string]int // of stored records, by name
	writers map[reflect.Type]writer
	sorted  []*scheduled

	// The process that is being written, with its time and counters.
	in      *process
	mono    time.Duration
	cancels int64
}

// callOf identifies a call of a core.
type callOf struct {
	process, life int
	id            uint64
}

// writer writes the values of a type.
type writer func(d *digester, v reflect.Value)

func newDigester() *digester {
	return &digester{
		known: map[uintptr]int{}, calls: map[callOf]int{}, counts: map[string]int{}, writers: map[reflect.Type]writer{},
	}
}

func (d *digester) reset(w *smallWorld, first int) {
	d.w, d.out = w, d.out[:0]
	clear(d.known)
	clear(d.calls)
	clear(d.counts)
	d.places = d.places[:0]
	for i := range w.processes {
		d.places = append(d.places, (i-first+len(w.processes))%len(w.processes))
	}
}

func (d *digester) number(n int64) { d.out = binary.AppendVarint(d.out, n) }
func (d *digester) int(n int)      { d.number(int64(n)) }

func (d *digester) bools(all ...bool) {
	bits := int64(0)
	for i, b := range all {
		if b {
			bits |= 1 << i
		}
	}
	d.number(bits)
}

func (d *digester) text(s string) {
	d.int(len(s))
	d.out = append(d.out, s...)
}

// longAgo is the age beyond which the exact age no longer matters. It exceeds leases and
// the limits of calls.
const longAgo = 15 * time.Second

// from writes a time relative to now.
func (d *digester) from(now, at time.Duration) {
	if at == math.MaxInt64 {
		d.text("never")
		return
	}
	d.number(int64(max(at-now, -longAgo)))
}

// until writes when something is over. If it is over already, the time does not matter.
func (d *digester) until(at time.Duration) { d.number(int64(max(at-d.w.now, -1))) }

func (d *digester) wall(t time.Time) {
	if t.IsZero() {
		d.text("")
	} else {
		d.number(int64(max(t.Sub(epoch)-d.w.now, -longAgo)))
	}
}

// owner writes the owner of a lease.
func (d *digester) owner(name string) {
	for _, p := range d.w.processes {
		if p.alive && p.owner == name {
			d.int(1 + d.places[p.index])
			return
		}
	}
	d.bools(name != "") // a dead process
}

func (d *digester) lease(l driver.Lease) {
	d.text(l.Name)
	d.owner(l.Owner)
	d.int(l.Count - d.counts[l.Name])
}

func (d *digester) record(r *driver.Record) {
	if r == nil {
		d.text("")
		return
	}
	d.text(r.Name)
	d.owner(r.Status.Owner)
	d.int(r.Status.ModificationCount - d.counts[r.Name])
	d.bools(r.Status.Completed, r.Status.InProgress, r.RetryInfo.NeedsRetry)
	d.text(string(r.Status.Outcome))
}

// store writes the records of the driver and what the checker knows of them.
func (d *digester) store() {
	w := d.w
	for _, id := range w.checker.order {
		last, err := w.driver.Get(context.Background(), w.checker.tasks[id].Queue, id)
		if err != nil {
			panic(fmt.Sprintf("reading job %q: %s", id, err))
		}
		attempts := []*driver.Record{last}
		for _, r := range attempts {
			d.counts[r.Name] = r.Status.ModificationCount
		}
		d.int(len(attempts))
		for _, r := range attempts {
			d.record(r)
			d.int(len(r.Scopes))
		}
		j := w.checker.jobs[id]
		d.bools(j.accepted, j.ended, j.runs > 0)
		d.int(j.attempt)
		d.text(string(j.state))
		d.int(j.lease - d.counts[attempts[len(attempts)-1].Name])
		d.until(j.until)
	}
	d.arrivals()
	for _, r := range w.checker.live {
		d.text(r.Job)
		d.int(d.places[r.Process])
		d.until(r.until)
	}
}

// arrivals writes the order in which unfinished jobs can be claimed.
func (d *digester) arrivals() {
	type arrival struct {
		id  string
		seq uint64
	}
	var all []arrival
	queues := reflect.ValueOf(d.w.driver).Elem().FieldByName("queues").MapRange()
	for queues.Next() {
		entries := queues.Value().Elem().FieldByName("schedule").FieldByName("byID").MapRange()
		for entries.Next() {
			e := entries.Value().Elem()
			if place := e.FieldByName("place").Uint(); place < uint64(finishedPlace) {
				all = append(all, arrival{e.FieldByName("ID").String(), e.FieldByName("seq").Uint()})
			}
		}
	}
	slices.SortFunc(all, func(a, b arrival) int { return cmp.Compare(a.seq, b.seq) })
	for _, a := range all {
		d.text(a.id)
	}
}

// finishedPlace is the place of an ended entry of the memory driver.
const finishedPlace = 8

// process writes a process.
func (d *digester) process(p *process) {
	d.enter(p)
	d.bools(p.alive, p.suspended, p.failing, slices.ContainsFunc(p.open, func(c *call) bool { return c.path == renewPath }))
	if !p.alive {
		return
	}
	d.from(p.w.now, max(p.worked, p.w.now-d.w.settings.core.LeaseTime)) // before that, it makes no difference
	d.from(p.w.now, p.backAt)
	d.from(p.w.now, max(p.link.noRequests, p.w.now))
	d.from(p.w.now, max(p.link.noAnswers, p.w.now))
	for _, path := range []path{claimPath, renewPath, cancelPath, recoverPath, forgetPath, findPath, completePath, checkPath, retryPath, endRetryPath} {
		d.int(p.link.hangs[path])
	}
	of := reflect.ValueOf(p.core)
	d.cancels = of.Elem().FieldByName("cancels").Int()
	d.add(of)
	for _, wk := range p.workers {
		d.add(reflect.ValueOf(&wk.Worker))
		d.bools(wk.waiting)
	}
	for _, r := range p.runs {
		d.run(r)
	}
	for _, r := range p.refused {
		d.add(reflect.ValueOf(r))
	}
	for _, r := range p.retries {
		d.record(r.record)
		d.bools(r.call != nil && r.call.hangs, r.call != nil && r.call.answered)
	}
	d.agenda(p.deferred)
}

func (d *digester) enter(p *process) { d.in, d.mono = p, p.w.now-p.started }

func (d *digester) run(r *run) {
	d.add(reflect.ValueOf(r.Run))
	d.bools(r.worker != nil, r.began, r.returned, r.over, r.canceled, r.lost, r.stopped, r.offered)
}

// agenda writes the scheduled happenings. For simultaneous happenings to different
// objects, the order of planning does not matter.
func (d *digester) agenda(all []*scheduled) {
	d.sorted = append(d.sorted[:0], all...)
	slices.SortFunc(d.sorted, func(a, b *scheduled) int { return compare(a, b, d.places) })
	d.int(len(all))
	for _, s := range d.sorted {
		d.from(d.w.now, max(s.at, d.w.now))
		d.happening(s.what)
	}
}

// compare orders simultaneous happenings as if they were planned at the same time: by
// what they are, and by the places of their processes.
func compare(a, b *scheduled, places []int) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	x, y := subjectOf(a.what), subjectOf(b.what)
	return cmp.Or(
		cmp.Compare(places[x.process.index], places[y.process.index]), cmp.Compare(x.kind, y.kind),
		strings.Compare(x.name, y.name), cmp.Compare(x.since, y.since), cmp.Compare(a.seq, b.seq))
}

// subject describes a happening: its kind, its name, and when it was begun.
type subject struct {
	process *process
	kind    int
	name    string
	since   time.Duration
}

func subjectOf(what happening) subject {
	switch h := what.(type) {
	case starts:
		return subject{process: h.p, kind: 0}
	case resumes:
		return subject{process: h.p, kind: 1}
	case workerComes:
		return subject{process: h.worker.p, kind: 2}
	case yielded:
		return subject{process: h.p, kind: 3}
	case notification:
		return subject{process: h.p, kind: 4}
	case tick:
		return subject{process: h.p, kind: 5}
	case callEnds:
		return subject{h.call.p, 6, h.call.name(), h.call.sent}
	case effect:
		return subject{h.call.p, 7, h.call.name(), h.call.sent}
	case runBegins:
		return subject{process: h.run.p, kind: 8, name: h.run.Lease.Name}
	case runReturns:
		return subject{process: h.run.p, kind: 9, name: h.run.Lease.Name}
	case *retry:
		return subject{process: h.p, kind: 10, name: h.record.Name}
	default:
		panic(fmt.Sprintf("unexpected %T in a small world", what))
	}
}

// name distinguishes calls that a process has sent at the same time.
func (c *call) name() string {
	if c.retry != nil {
		return string(c.path) + c.retry.record.Name
	}
	return string(c.path)
}

func (d *digester) happening(what happening) {
	of := subjectOf(what)
	d.enter(of.process)
	d.int(d.places[of.process.index])
	d.int(of.kind)
	p := of.process
	switch h := what.(type) {
	case effect:
		d.effect(h.call)
	case callEnds:
		d.text(string(h.call.path))
		d.bools(h.call.answered, h.call.life == p.life, h.call.retry != nil)
		if h.err != nil {
			d.text(h.err.Error())
		} else {
			d.answer(h.call)
		}
		if h.call.retry != nil {
			d.record(h.call.retry.record)
		} else {
			d.command(h.call)
		}
	case runBegins:
		d.lease(h.run.Lease)
	case runReturns:
		d.lease(h.run.Lease)
	case *retry:
		d.record(h.record)
	}
}

// effect writes the effect that a call will have on the store.
func (d *digester) effect(c *call) {
	d.text(string(c.path))
	d.owner(c.owner)
	d.wall(c.now)
	d.bools(c.life == c.p.life, c.answered, c.fate.answerLost, c.fate.ignoresLimit, c.fate.after != nil)
	d.number(int64(c.fate.answer))
	d.command(c)
	if c.retry != nil {
		d.record(c.retry.record)
	}
}

func (d *digester) command(c *call) {
	switch do := c.command.(type) {
	case core.Claim:
		d.call(c, do.Call)
		d.int(do.Limit)
	case core.Look:
		d.call(c, do.Call)
		d.bools(do.Survey)
	case core.Renew:
		d.call(c, do.Call)
		d.leases(do.Leases)
	case core.Recover:
		d.call(c, do.Call)
		d.leases(do.Keep)
	case core.Complete:
		d.call(c, do.Call)
		d.ends(do.Runs)
	case core.Release:
		d.call(c, do.Call)
		d.ends(do.Runs)
	case core.Check:
		d.ends([]*core.Run{do.Run})
	case core.CheckCancels:
		d.call(c, do.Call)
	case core.Forget:
		d.call(c, do.Call)
	case core.ScanRetries:
		d.call(c, do.Call)
		d.bools(do.All)
	}
}

func (d *digester) leases(all []driver.Lease) {
	d.int(len(all))
	for _, l := range all {
		d.lease(l)
	}
}

func (d *digester) ends(runs []*core.Run) {
	d.int(len(runs))
	for _, r := range runs {
		d.lease(r.Lease)
		d.record(r.End().Record)
	}
}

func (d *digester) call(c *call, of core.Call) { d.callID(callOf{c.p.index, c.life, of.ID}) }

func (d *digester) callID(of callOf) {
	if of.id == 0 {
		d.int(0)
		return
	}
	if d.calls[of] == 0 {
		d.calls[of] = len(d.calls) + 1
	}
	d.int(d.calls[of])
}

// answer writes the answer of the store.
func (d *digester) answer(c *call) {
	failed := func(err error) { d.bools(err != nil) }
	failed(c.err)
	switch a := c.result.(type) {
	case core.Claimed:
		d.int(len(a.Records))
		for _, r := range a.Records {
			d.record(r)
		}
		for _, wait := range a.Waits {
			d.text(wait.Queue)
			d.int(int(wait.For))
		}
		d.wall(a.Next)
		failed(a.Err)
	case core.Looked:
		for _, q := range a.Work.Queues {
			d.text(q.Queue)
			d.bools(q.Ready, q.Expired, q.Retrying)
		}
		d.wall(a.Work.Next)
		d.int(int(a.StaleIn))
		failed(a.Err)
	case core.Renewed:
		d.leases(a.Lost)
		failed(a.Err)
	case core.Recovered:
		d.int(a.Jobs)
		failed(a.Err)
	case core.Written:
		for _, err := range a.Errs {
			failed(err)
		}
		failed(a.Err)
	case core.Checked:
		d.bools(a.Written)
	}
	for _, r := range c.found {
		d.record(r)
	}
}

// add writes a value of the core.
func (d *digester) add(v reflect.Value) {
	t := v.Type()
	write := d.writers[t]
	if write == nil {
		write = d.writer(t)
		d.writers[t] = write
	}
	write(d, v)
}

func (d *digester) writer(t reflect.Type) writer {
	switch t {
	case reflect.TypeFor[time.Time]():
		return func(d *digester, v reflect.Value) {
			if v.Field(0).Uint() == 0 && v.Field(1).Int() == 0 {
				d.text("")
				return
			}
			panic("an explored core must not use wall clock times")
		}
	case reflect.TypeFor[*driver.Record]():
		return func(d *digester, v reflect.Value) {
			if v.IsNil() {
				d.text("")
			} else {
				d.text(v.Elem().Field(0).String()) // its name
			}
		}
	case reflect.TypeFor[driver.Lease]():
		return func(d *digester, v reflect.Value) {
			d.lease(driver.Lease{Name: v.Field(1).String(), Owner: v.Field(2).String(), Count: int(v.Field(3).Int())})
		}
	case reflect.TypeFor[list.List]():
		return writeList
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(d *digester, v reflect.Value) { d.bools(v.Bool()) }
	case reflect.Int, reflect.Int64:
		return func(d *digester, v reflect.Value) { d.number(v.Int()) }
	case reflect.Uint64:
		return func(d *digester, v reflect.Value) { d.number(int64(v.Uint())) }
	case reflect.String:
		return func(d *digester, v reflect.Value) { d.text(v.String()) }
	case reflect.Pointer:
		return writePointer
	case reflect.Interface:
		return func(d *digester, v reflect.Value) { d.bools(v.IsNil()) } // an error: see Run.cause
	case reflect.Slice, reflect.Array:
		return func(d *digester, v reflect.Value) {
			d.int(v.Len())
			for i := range v.Len() {
				d.add(v.Index(i))
			}
		}
	case reflect.Map:
		return writeMap
	case reflect.Struct:
		return structWriter(t)
	default:
		panic(fmt.Sprintf("the digest does not support %s", t))
	}
}

func writePointer(d *digester, v reflect.Value) {
	if v.IsNil() {
		d.int(0)
		return
	}
	n, ok := d.known[v.Pointer()]
	if ok {
		d.int(n)
		return
	}
	d.known[v.Pointer()] = len(d.known) + 1
	d.int(-1)
	d.add(v.Elem())
}

// writeMap writes a map from strings.
func writeMap(d *digester, v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	d.int(len(keys))
	for _, key := range keys {
		d.text(key.String())
		d.add(v.MapIndex(key))
	}
}

// writeList writes the lines of a core in order.
func writeList(d *digester, v reflect.Value) {
	root := v.Field(0)
	d.number(v.Field(1).Int())
	for e := root.FieldByName("next"); e.Pointer() != root.Addr().Pointer(); e = e.Elem().FieldByName("next") {
		d.add(e.Elem().FieldByName("Value").Elem())
	}
}

// fieldWriters are the writers of the fields of the core that need special treatment. Nil
// is for fields that decide nothing or follow from others.
var fieldWriters = map[string]writer{
	"Core.config": nil, "Core.now": nil, "Core.commands": nil, "Core.cancels": nil,
	"Core.lines":       nil,                                             // the lines of order
	"Core.firstServed": nil, "Core.lastServed": nil, "Line.served": nil, // see order
	"Core.candidates": nil, "Line.candidate": nil, "Line.counted": nil, // they follow from the lines
	"Core.rated": nil, // see Line.rated
	"Line.place": nil, "Worker.Shell": nil,
	"Run.Job": nil, "Run.CancelContext": nil, "Run.Then": nil, "Run.failure": nil, "Run.place": nil,
	"Run.fence": writeTimer, "Run.due": writeTimer,
	"Run.cause": func(d *digester, v reflect.Value) {
		d.bools(v.IsNil(), !v.IsNil() && v.Elem().Pointer() == reflect.ValueOf(amboy.ErrLeaseLost).Pointer())
	},
	"call.cancels": func(d *digester, v reflect.Value) { d.bools(v.Int() == d.cancels) },
	"call.sent":    writeMono,
	"calls.last":   nil,
	"Call.ID":      writeCallID,
	"calls.current": func(d *digester, v reflect.Value) {
		for i := range v.Len() {
			writeCallID(d, v.Index(i))
		}
	},
	"timers.at": func(d *digester, v reflect.Value) {
		for i := range v.Len() {
			writeTimer(d, v.Index(i))
		}
	},
	"Core.lookFrom": writeTimer, "Core.retriesFrom": writeTimer, "Core.allRetriesFrom": writeTimer,
	"Core.worked": func(d *digester, v reflect.Value) {
		d.from(d.mono, max(time.Duration(v.Int()), d.mono-d.w.settings.core.LeaseTime))
	},
	"timers.next": writeTimer, "timers.wake": writeTimer,
	"Run.aheadUntil": writeTimer, "ahead.answered": writeMono,
	"ends.probe": writeTimer, "ends.turns": nil,
	"HandBack.NotBefore": nil,
}

func writeMono(d *digester, v reflect.Value)   { d.from(d.mono, time.Duration(v.Int())) }
func writeTimer(d *digester, v reflect.Value)  { d.from(d.mono, max(time.Duration(v.Int()), d.mono)) }
func writeCallID(d *digester, v reflect.Value) { d.callID(callOf{d.in.index, d.in.life, v.Uint()}) }

func structWriter(t reflect.Type) writer {
	type field struct {
		index int
		write writer
	}
	var fields []field
	for i := range t.NumField() {
		write, special := fieldWriters[t.Name()+"."+t.Field(i).Name]
		switch {
		case !special:
			fields = append(fields, field{i, func(d *digester, v reflect.Value) { d.add(v) }})
		case write != nil:
			fields = append(fields, field{i, write})
		}
	}
	return func(d *digester, v reflect.Value) {
		for _, f := range fields {
			f.write(d, v.Field(f.index))
		}
	}
}
