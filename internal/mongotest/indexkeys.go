package mongotest

import (
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// documentKeys caches the keys of a document in the indexes of its collection. Neither
// documents nor indexes change.
type documentKeys [][][]any // by the number of the index

// of returns the keys in an index, or none if the index excludes the document.
func (k documentKeys) of(x *index) [][]any {
	if x.number < len(k) {
		return k[x.number]
	}
	return nil
}

func (k *documentKeys) add(x *index, keys [][]any) {
	for len(*k) <= x.number {
		*k = append(*k, nil)
	}
	(*k)[x.number] = keys
}

// share replaces the keys in an index by keys of another document if both are equal, so
// that they share memory. It reports whether they are equal.
func (k documentKeys) share(x *index, keys [][]any) bool {
	if !slices.EqualFunc(k.of(x), keys, sameKey) {
		return false
	}
	if x.number < len(k) {
		k[x.number] = keys
	}
	return true
}

// generate computes the keys of a document in an index. See
// https://www.mongodb.com/docs/manual/core/indexes/index-types/index-multikey/.
func (k *documentKeys) generate(x *index, doc *document) error {
	if x.partial != nil && !x.partial.matches(doc.fields) {
		return nil
	}
	steps := make([]keyStep, len(x.fields))
	for i := range x.fields {
		steps[i] = newKeyStep(doc.fields, x.fields[i].path)
	}
	keys, err := x.expand(steps)
	if err != nil {
		return err
	}
	k.add(x, keys)
	return nil
}

// keyStep is a value on the path of an index field: the value of the key, or an array in
// which the path continues.
type keyStep struct {
	value any
	rest  []string
	// final is true if the value is the key's, whatever it is.
	final bool
}

// newKeyStep follows a path up to an array.
func newKeyStep(v any, path []string) keyStep {
	for len(path) > 0 {
		switch x := v.(type) {
		case bson.D:
			v = bsonvalue.Field(x, path[0])
		case bson.A:
			i, err := strconv.Atoi(path[0])
			if err != nil || i < 0 {
				return keyStep{value: x, rest: path}
			}
			v = bsonvalue.Missing
			if i < len(x) {
				v = x[i]
			}
		default:
			return keyStep{value: bsonvalue.Missing}
		}
		path = path[1:]
	}
	return keyStep{value: v}
}

// into continues in an element of the array. Arrays in arrays are values.
func (s keyStep) into(element any) keyStep {
	if _, ok := element.(bson.A); !ok {
		return newKeyStep(element, s.rest)
	}
	if len(s.rest) > 0 {
		return keyStep{value: bsonvalue.Missing}
	}
	return keyStep{value: element, final: true}
}

func (s keyStep) array() (bson.A, bool) {
	list, ok := s.value.(bson.A)
	return list, ok && !s.final
}

// expand makes a key for each element of the array that steps have reached, and a single
// key if there is no array.
func (x *index) expand(steps []keyStep) ([][]any, error) {
	first := slices.IndexFunc(steps, func(s keyStep) bool { _, ok := s.array(); return ok })
	if first < 0 {
		return x.key(steps), nil
	}
	list, _ := steps[first].array()
	at := make([]bool, len(steps)) // which fields lead to the array
	for i, s := range steps {
		if _, ok := s.array(); !ok {
			continue
		}
		if !slices.Equal(x.prefix(i, s), x.prefix(first, steps[first])) {
			return nil, errorf(codeParallelArrays, "cannot index parallel arrays [%s] [%s]", x.fields[i].name, x.fields[first].name)
		}
		at[i] = true
		x.fields[i].multikey = true
	}
	if len(list) == 0 {
		list = bson.A{bsonvalue.Missing} // the key of an empty array
	}
	var keys [][]any
	for _, element := range list {
		next := slices.Clone(steps)
		for i, s := range steps {
			if at[i] {
				next[i] = s.into(element)
				next[i].final = next[i].final || len(s.rest) == 0
			}
		}
		more, err := x.expand(next)
		if err != nil {
			return nil, err
		}
		keys = append(keys, more...)
	}
	return keys, nil
}

// prefix returns the path that led to a step of field i.
func (x *index) prefix(i int, s keyStep) []string {
	path := x.fields[i].path
	return path[:len(path)-len(s.rest)]
}

// key returns the key of steps that have all reached a value. A missing value is null. A
// sparse index excludes keys that are missing in all fields.
func (x *index) key(steps []keyStep) [][]any {
	key := make([]any, len(steps))
	missing := 0
	for i, s := range steps {
		switch {
		case s.final || bsonvalue.Rank(s.value) != bsonvalue.RankUndefined:
			key[i] = s.value
		default:
			missing++
		}
	}
	if x.sparse && missing == len(key) {
		return nil
	}
	return [][]any{key}
}
