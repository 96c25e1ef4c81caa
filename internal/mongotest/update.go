package mongotest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// update is a parsed update: a replacement, a pipeline, or operators.
type update struct {
	replacement bool
	document    bson.D
	pipeline    []stage
	mods        []modification
}

// modification is one operator on one path.
type modification struct {
	operator string
	path     string
	operand  any
	test     func(any) bool // of $pull
}

// parseUpdate parses an update. See
// https://www.mongodb.com/docs/manual/reference/operator/update/.
func parseUpdate(raw bson.RawValue) (*update, error) {
	v, err := decodeValue(raw)
	if err != nil {
		return nil, err
	}
	switch x := v.(type) {
	case bson.A:
		pipeline, err := parsePipeline(x, updateStages)
		return &update{pipeline: pipeline}, err
	case bson.D:
		if isOperators(x) {
			return parseOperators(x)
		}
		for _, e := range x {
			if strings.HasPrefix(e.Key, "$") {
				return nil, errorf(52, "The dollar ($) prefixed field '%s' is not allowed in the context of an update's replacement document.", e.Key)
			}
		}
		return &update{replacement: true, document: x}, nil
	default:
		return nil, errorf(codeFailedToParse, "Update argument must be either an object or an array")
	}
}

// parseOperators lists the modifications in the order in which servers apply them: by
// path, with numbers in paths compared as numbers.
func parseOperators(doc bson.D) (*update, error) {
	up := &update{}
	var touched []string
	for _, op := range doc {
		fields, ok := op.Value.(bson.D)
		if !updateOperators[op.Key] {
			return nil, errorf(codeFailedToParse, "Unknown modifier: %s. Expected a valid update modifier or pipeline-style update specified as an array", op.Key)
		}
		if !ok {
			return nil, errorf(codeFailedToParse, "Modifiers operate on fields but we found type %s instead. For example: {$mod: {<field>: ...}} not {%s: %s}", typeName(op.Value), op.Key, show(op.Value))
		}
		for _, f := range fields {
			m, err := parseModification(op.Key, f)
			if err != nil {
				return nil, err
			}
			up.mods = append(up.mods, m)
			touched = append(touched, f.Key)
			if target, isText := f.Value.(string); op.Key == "$rename" && isText {
				touched = append(touched, target)
			}
		}
	}
	if err := checkConflicts(touched); err != nil {
		return nil, err
	}
	slices.SortStableFunc(up.mods, func(a, b modification) int { return comparePaths(a.path, b.path) })
	return up, nil
}

var updateOperators = map[string]bool{
	"$set": true, "$unset": true, "$inc": true, "$mul": true, "$min": true, "$max": true, "$push": true,
	"$pull": true, "$addToSet": true, "$setOnInsert": true, "$currentDate": true, "$rename": true,
}

func parseModification(operator string, f bson.E) (modification, error) {
	m := modification{operator: operator, path: f.Key, operand: f.Value}
	for _, part := range strings.Split(f.Key, ".") {
		if part == "" {
			return m, errorf(56, "The update path '%s' contains an empty field name, which is not allowed.", f.Key)
		}
		if strings.HasPrefix(part, "$") {
			return m, errorf(codeBadValue, "the path '%s' has a positional operator, which mongotest does not support", f.Key)
		}
	}
	var err error
	switch operator {
	case "$inc", "$mul":
		if bsonvalue.Rank(f.Value) != bsonvalue.RankNumber {
			err = errorf(codeTypeMismatch, "Cannot increment with non-numeric argument: {%s: %s}", f.Key, show(f.Value))
		}
	case "$rename":
		if _, ok := f.Value.(string); !ok {
			err = errorf(codeBadValue, "The 'to' field for $rename must be a string: %s: %s", f.Key, show(f.Value))
		}
	case "$pull":
		m.test, err = parsePull(f.Value)
	case "$push":
		err = checkEach(operator, f.Value, "$each", "$slice", "$position")
	case "$addToSet":
		err = checkEach(operator, f.Value, "$each")
	case "$currentDate":
		err = checkCurrentDate(f.Value)
	}
	return m, err
}

// checkEach refuses unknown modifiers of an operator on arrays.
func checkEach(operator string, v any, known ...string) error {
	if !isOperators(v) {
		return nil
	}
	doc := v.(bson.D)
	for _, e := range doc {
		if !slices.Contains(known, e.Key) {
			return errorf(codeBadValue, "Unrecognized clause in %s: %s", operator, e.Key)
		}
		if bsonvalue.Rank(e.Value) != bsonvalue.RankNumber && e.Key != "$each" {
			return errorf(codeBadValue, "The value for %s must be an integer value but was given type: %s", e.Key, typeName(e.Value))
		}
	}
	if _, ok := bsonvalue.Field(doc, "$each").(bson.A); !ok {
		return errorf(codeBadValue, "The argument to $each in %s must be an array but it was of type: %s", operator, typeName(bsonvalue.Field(doc, "$each")))
	}
	return nil
}

func checkCurrentDate(v any) error {
	if b, ok := v.(bool); ok && b {
		return nil
	}
	if doc, ok := v.(bson.D); ok && len(doc) == 1 && doc[0].Key == "$type" && (bsonvalue.Equal(doc[0].Value, "date") || bsonvalue.Equal(doc[0].Value, "timestamp")) {
		return nil
	}
	return errorf(codeBadValue, "%s is not valid for $currentDate. Please use a boolean ('true') or a $type expression ({$type: 'timestamp/date'}).", show(v))
}

// parsePull parses the condition of $pull: operators on the element, a filter for
// elements that are documents, or a value that equals the element.
func parsePull(v any) (func(any) bool, error) {
	if doc, ok := v.(bson.D); ok {
		return elementTest(doc)
	}
	if _, ok := v.(primitive.Regex); ok {
		c, err := parseCondition(v)
		return func(item any) bool { return c([]any{item}) }, err
	}
	return func(item any) bool { return bsonvalue.Equal(item, v) }, nil
}

// checkConflicts refuses two modifications of one field or of its parts.
func checkConflicts(paths []string) error {
	for i, a := range paths {
		for _, b := range paths[:i] {
			if a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".") {
				return errorf(codeConflictingUpdate, "Updating the path '%s' would create a conflict at '%s'", a, min(a, b))
			}
		}
	}
	return nil
}

func comparePaths(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		i, errX := strconv.Atoi(x)
		j, errY := strconv.Atoi(y)
		if errX == nil && errY == nil {
			return cmp.Compare(i, j)
		}
		return strings.Compare(x, y)
	})
}

// apply returns the updated copy of a document.
func (up *update) apply(doc bson.D, inserting bool) (bson.D, error) {
	after, err := up.change(doc, inserting)
	if err != nil {
		return nil, err
	}
	before := bsonvalue.Field(doc, "_id")
	if bsonvalue.Rank(before) == bsonvalue.RankUndefined {
		return after, nil
	}
	now := bsonvalue.Field(after, "_id")
	if bsonvalue.Rank(now) == bsonvalue.RankUndefined && (up.replacement || up.pipeline != nil) {
		return append(bson.D{{Key: "_id", Value: before}}, after...), nil
	}
	if !bsonvalue.Equal(before, now) {
		return nil, errorf(codeImmutableField, "Performing an update on the path '_id' would modify the immutable field '_id'")
	}
	if up.replacement {
		after = append(bson.D{{Key: "_id", Value: before}}, without(after, true)...)
	}
	return after, nil
}

func (up *update) change(doc bson.D, inserting bool) (bson.D, error) {
	if up.replacement {
		return up.document, nil
	}
	if up.pipeline != nil {
		docs, err := runPipeline([]bson.D{doc}, up.pipeline)
		if err != nil {
			return nil, err
		}
		return docs[0], nil
	}
	id := bsonvalue.Field(doc, "_id")
	for _, m := range up.mods {
		var err error
		if doc, err = m.apply(doc, id, inserting); err != nil {
			return nil, err
		}
	}
	return doc, nil
}

func (m modification) apply(doc bson.D, id any, inserting bool) (bson.D, error) {
	parts := strings.Split(m.path, ".")
	current := at(doc, parts)
	missing := bsonvalue.Rank(current) == bsonvalue.RankUndefined
	switch m.operator {
	case "$unset":
		return unsetPath(doc, parts), nil
	case "$setOnInsert":
		if !inserting {
			return doc, nil
		}
	case "$pull":
		if missing {
			return doc, nil
		}
	case "$rename":
		if missing {
			return doc, nil
		}
		return setPath(unsetPath(doc, parts), m.operand.(string), current)
	}
	v, err := m.value(current, id)
	if err != nil {
		return nil, err
	}
	return setPath(doc, m.path, v)
}

// value returns the new value of the field. The current value may be undefined.
func (m modification) value(current, id any) (any, error) {
	missing := bsonvalue.Rank(current) == bsonvalue.RankUndefined
	switch m.operator {
	case "$inc":
		if missing {
			return m.operand, nil
		}
		return m.arithmetic(current, id, add)
	case "$mul":
		if missing {
			current = int32(0)
		}
		return m.arithmetic(current, id, multiply)
	case "$min", "$max":
		if c := bsonvalue.Compare(m.operand, current); missing || c < 0 && m.operator == "$min" || c > 0 && m.operator == "$max" {
			return m.operand, nil
		}
		return current, nil
	case "$currentDate":
		return currentDate(m.operand), nil
	case "$push", "$addToSet", "$pull":
		return m.list(current, id)
	default: // $set and $setOnInsert
		return m.operand, nil
	}
}

func currentDate(operand any) any {
	now := time.Now()
	if doc, ok := operand.(bson.D); ok && bsonvalue.Equal(doc[0].Value, "timestamp") {
		return primitive.Timestamp{T: uint32(now.Unix()), I: 1}
	}
	return primitive.NewDateTimeFromTime(now)
}

func (m modification) arithmetic(current, id any, op func(a, b any) (any, error)) (any, error) {
	if bsonvalue.Rank(current) != bsonvalue.RankNumber {
		return nil, errorf(codeTypeMismatch, "Cannot apply %s to a value of non-numeric type. {_id: %s} has the field '%s' of non-numeric type %s", m.operator, show(id), lastPart(m.path), typeName(current))
	}
	return op(current, m.operand)
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// list returns the new value of a field that is an array.
func (m modification) list(current, id any) (any, error) {
	list, ok := current.(bson.A)
	if !ok && bsonvalue.Rank(current) != bsonvalue.RankUndefined {
		if m.operator == "$pull" {
			return nil, errorf(codeBadValue, "Cannot apply $pull to a non-array value")
		}
		return nil, errorf(codeBadValue, "The field '%s' must be an array but is of type %s in document {_id: %s}", lastPart(m.path), typeName(current), show(id))
	}
	list = slices.Clone(list)
	if m.operator == "$pull" {
		return slices.DeleteFunc(list, m.test), nil
	}
	items := bson.A{m.operand}
	var modifiers bson.D
	if isOperators(m.operand) {
		modifiers = m.operand.(bson.D)
		items = bsonvalue.Field(modifiers, "$each").(bson.A)
	}
	if list == nil {
		list = bson.A{}
	}
	if m.operator == "$addToSet" {
		for _, item := range items {
			if !slices.ContainsFunc(list, func(x any) bool { return bsonvalue.Equal(x, item) }) {
				list = append(list, item)
			}
		}
		return list, nil
	}
	return push(list, items, modifiers), nil
}

// push inserts items at a position, by default the end, and truncates the list. See
// https://www.mongodb.com/docs/manual/reference/operator/update/push/.
func push(list, items bson.A, modifiers bson.D) bson.A {
	position := len(list)
	if f, ok := number(bsonvalue.Field(modifiers, "$position")); ok {
		position = min(int(f), len(list))
		if f < 0 {
			position = max(0, len(list)+int(f))
		}
	}
	list = slices.Insert(list, position, items...)
	if f, ok := number(bsonvalue.Field(modifiers, "$slice")); ok {
		if f >= 0 {
			return list[:min(int(f), len(list))]
		}
		return list[max(0, len(list)+int(f)):]
	}
	return list
}

// at returns the value at a path, or undefined. Arrays are accessed only by index.
func at(v any, path []string) any {
	if len(path) == 0 {
		return v
	}
	switch x := v.(type) {
	case bson.D:
		return at(bsonvalue.Field(x, path[0]), path[1:])
	case bson.A:
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(x) {
			return at(x[i], path[1:])
		}
	}
	return bsonvalue.Missing
}

// setPath returns a copy of a document with the value at a path set. It creates missing
// documents on the path.
func setPath(doc bson.D, path string, v any) (bson.D, error) {
	set, err := setIn(doc, strings.Split(path, "."), "", v)
	if err != nil {
		return nil, err
	}
	return set.(bson.D), nil
}

func setIn(parent any, path []string, name string, v any) (any, error) {
	if len(path) == 0 {
		return v, nil
	}
	switch x := parent.(type) {
	case primitive.Undefined:
		return setIn(bson.D{}, path, name, v)
	case bson.D:
		inner, err := setIn(bsonvalue.Field(x, path[0]), path[1:], path[0], v)
		if err != nil {
			return nil, err
		}
		return setField(x, path[0], inner), nil
	case bson.A:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 {
			break
		}
		list := slices.Clone(x)
		for len(list) <= i {
			list = append(list, nil)
		}
		var old any = bsonvalue.Missing
		if i < len(x) {
			old = x[i]
		}
		list[i], err = setIn(old, path[1:], path[0], v)
		return list, err
	}
	return nil, errorf(codePathNotViable, "Cannot create field '%s' in element {%s: %s}", path[0], name, show(parent))
}

// unsetPath returns a copy of a document without the field at a path. An
// element of an array becomes null.
func unsetPath(doc bson.D, path []string) bson.D {
	if bsonvalue.Rank(at(doc, path)) == bsonvalue.RankUndefined {
		return doc
	}
	return unsetIn(doc, path).(bson.D)
}

func unsetIn(parent any, path []string) any {
	switch x := parent.(type) {
	case bson.D:
		if len(path) == 1 {
			return slices.DeleteFunc(slices.Clone(x), func(e bson.E) bool { return e.Key == path[0] })
		}
		return setField(x, path[0], unsetIn(bsonvalue.Field(x, path[0]), path[1:]))
	case bson.A:
		i, err := strconv.Atoi(path[0])
		if err != nil {
			return parent
		}
		list := slices.Clone(x)
		if len(path) == 1 {
			list[i] = nil
		} else {
			list[i] = unsetIn(list[i], path[1:])
		}
		return list
	default:
		return parent
	}
}
