package inspectortest

import "net/http/httptest"

// Endless records the first part of an answer that does not end, and calls End after it.
type Endless struct {
	*httptest.ResponseRecorder
	End func()
}

// Flush implements http.Flusher.
func (e *Endless) Flush() {
	e.ResponseRecorder.Flush()
	if e.Body.Len() > 0 {
		e.End()
	}
}
