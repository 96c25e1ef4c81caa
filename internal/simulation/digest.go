package simulation

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// digest stands for a state of a world.
type digest [16]byte

// digest sums up all that the future of a world depends on.
func (w *smallWorld) digest() digest {
	d := digester{known: map[uintptr]int{}}
	d.number(int64(w.now))
	d.number(int64(w.faults))
	for _, p := range w.processes {
		d.process(p)
	}
	d.add(reflect.ValueOf(w.driver))
	d.agenda(w.agenda.all)
	d.add(reflect.ValueOf(w.checker.jobs))
	for _, r := range w.checker.live {
		d.text(r.Job)
		d.number(int64(r.Process))
		d.number(int64(r.until))
	}
	return digest(sum(d.out))
}

func sum(b []byte) []byte {
	all := sha256.Sum256(b)
	return all[:16]
}

type labeled struct {
	*scheduled
	label string
}

// label is the same for things that are to happen at the same time to the same.
func (s *scheduled) label() string {
	of := ""
	switch h := s.what.(type) {
	case effect:
		of = h.call.label()
	case callEnds:
		of = h.call.label()
		if h.err != nil {
			of += h.err.Error()
		}
	case runBegins:
		of = h.run.Lease.Name
	case runReturns:
		of = h.run.Lease.Name
	case *retry:
		of = h.record.Name
	}
	to := -1
	if s.to != nil {
		to = s.to.index
	}
	return fmt.Sprintf("%d %d %T %s", s.at, to, s.what, of)
}

func (c *call) label() string { return fmt.Sprintf("%d.%d %s %d", c.p.index, c.life, c.path, c.sent) }

// digester writes values, and what they point to, so that values that are the same give
// the same bytes. Pointers are numbered as they are met.
type digester struct {
	out   []byte
	known map[uintptr]int
	// calls numbers the calls of a core as they are met, and epoch and cancels are those
	// counts of it: only whether others are the same matters.
	calls          map[uint64]int
	epoch, cancels int64
}

func (d *digester) process(p *process) {
	d.calls = map[uint64]int{}
	if p.core != nil {
		of := reflect.ValueOf(p.core).Elem()
		d.epoch, d.cancels = of.FieldByName("epoch").Int(), of.FieldByName("cancels").Int()
	}
	open := slices.Clone(p.open)
	slices.SortStableFunc(open, func(a, b *call) int { return cmp.Compare(a.label(), b.label()) })
	sorted := *p
	sorted.open = open
	d.add(reflect.ValueOf(sorted))
}

func (d *digester) agenda(all []*scheduled) {
	agenda := make([]labeled, len(all))
	for i, s := range all {
		agenda[i] = labeled{s, s.label()}
	}
	slices.SortFunc(agenda, func(a, b labeled) int { return cmp.Compare(a.label, b.label) })
	for _, s := range agenda {
		d.text(s.label)
		d.add(reflect.ValueOf(s.what))
	}
}

// skipped are the types whose values decide nothing, or follow from others: the heaps of
// the store from its entries.
func skipped(t reflect.Type) bool {
	return t == reflect.TypeFor[*World]() || t == reflect.TypeFor[*Task]() ||
		strings.HasPrefix(t.PkgPath(), "sync") || strings.HasPrefix(t.Name(), "heap[") ||
		t.Kind() == reflect.Func || t.Kind() == reflect.Chan
}

// field writes a field of a struct. Of numbers that only count, so that they can be told
// apart, it writes what they are told apart from.
func (d *digester) field(of reflect.Type, name string, v reflect.Value) {
	switch of.Name() + "." + name {
	case "process.wakes", "tick.wake", "scheduled.seq", "calls.last", "process.claimed", "process.done",
		"Core.epoch", "Core.cancels":
	case "Line.checked", "call.epoch":
		d.same(v.Int(), d.epoch)
	case "call.cancels":
		d.same(v.Int(), d.cancels)
	case "Call.ID":
		d.number(int64(d.call(v.Uint())))
	case "calls.current":
		for i := range v.Len() {
			d.number(int64(d.call(v.Index(i).Uint())))
		}
	default:
		if strings.HasPrefix(of.Name(), "Entry[") && (name == "stamp" || name == "deadlineStamp") {
			return
		}
		d.add(v)
	}
}

func (d *digester) same(a, b int64) {
	if a == b {
		d.number(1)
	} else {
		d.number(0)
	}
}

func (d *digester) call(id uint64) int {
	if id == 0 {
		return 0
	}
	if d.calls[id] == 0 {
		d.calls[id] = len(d.calls) + 1
	}
	return d.calls[id]
}

func (d *digester) number(n int64) { d.out = binary.AppendVarint(d.out, n) }

func (d *digester) text(s string) {
	d.number(int64(len(s)))
	d.out = append(d.out, s...)
}

func (d *digester) add(v reflect.Value) {
	if !v.IsValid() {
		d.number(0)
		return
	}
	t := v.Type()
	if skipped(t) {
		return
	}
	switch t.Kind() {
	case reflect.Bool:
		if v.Bool() {
			d.number(1)
		} else {
			d.number(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.number(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		d.number(int64(v.Uint()))
	case reflect.Float64:
		d.text(fmt.Sprint(v.Float()))
	case reflect.String:
		d.text(v.String())
	case reflect.Pointer:
		d.pointer(v)
	case reflect.Interface:
		if v.IsNil() {
			d.number(0)
			return
		}
		d.text(v.Elem().Type().String())
		d.add(v.Elem())
	case reflect.Slice, reflect.Array:
		d.number(int64(v.Len()))
		for i := range v.Len() {
			d.add(v.Index(i))
		}
	case reflect.Map:
		d.mapping(v)
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			d.number(int64(v.Field(0).Uint()))
			d.number(v.Field(1).Int())
			return
		}
		for i := range v.NumField() {
			d.field(t, t.Field(i).Name, v.Field(i))
		}
	default:
		panic(fmt.Sprintf("the digest of a world has no %s", t))
	}
}

func (d *digester) pointer(v reflect.Value) {
	if v.IsNil() {
		d.number(0)
		return
	}
	if n, ok := d.known[v.Pointer()]; ok {
		d.number(int64(n))
		return
	}
	d.known[v.Pointer()] = len(d.known) + 1
	d.number(-1)
	d.add(v.Elem())
}

// mapping writes a map in the order of its keys, which are no pointers.
func (d *digester) mapping(v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		if a.Kind() == reflect.String {
			return cmp.Compare(a.String(), b.String())
		}
		if a.CanInt() {
			return cmp.Compare(a.Int(), b.Int())
		}
		if a.CanUint() {
			return cmp.Compare(a.Uint(), b.Uint())
		}
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	d.number(int64(len(keys)))
	for _, key := range keys {
		if key.CanUint() {
			d.number(int64(d.call(key.Uint())))
		} else {
			d.add(key)
		}
		d.add(v.MapIndex(key))
	}
}
