// Package outsideform lets package registry decode jobs for outside workers whose type is
// not registered in this process. Package job, which registry can't import, provides them.
package outsideform

import (
	"bytes"
	"encoding/json"
	"sync/atomic"
)

// Field is the field of a stored body that marks a job for outside workers. Its value is
// true.
const Field = "outside"

// maker makes an empty job of a type.
type maker func(typeName string, version int) any

var registered atomic.Pointer[maker]

// Register sets the function that makes an empty job of any type.
func Register(empty func(typeName string, version int) any) {
	m := maker(empty)
	registered.Store(&m)
}

// New makes an empty job of a type that is not registered, into which a body can be
// decoded. It returns nil if the body is not that of a job for outside workers.
func New(typeName string, version int, body []byte, isJSON bool) any {
	m := registered.Load()
	if m == nil || !isJSON || !Is(body) {
		return nil
	}
	return (*m)(typeName, version)
}

// Form is implemented by jobs that encode themselves as a valid JSON object. Package registry
// then leaves out the checks of package encoding/json.
type Form interface {
	// StoredForm returns the body, which must not be changed.
	StoredForm() ([]byte, error)
	// RestoreForm decodes a body, which it may keep. It returns an error if that is not valid.
	RestoreForm(body []byte) error
}

// begin is how the bodies of outside jobs begin that this library encoded.
var begin = []byte(`{"` + Field + `":true,`)

// Is reports whether a JSON body is that of a job for outside workers. It may report true for
// a body that is not valid JSON.
func Is(body []byte) bool {
	if bytes.HasPrefix(body, begin) {
		return true
	}
	if !bytes.Contains(body, []byte(`"`+Field+`"`)) {
		return false
	}
	var fields struct {
		Outside bool `json:"outside"`
	}
	return json.Unmarshal(body, &fields) == nil && fields.Outside
}
