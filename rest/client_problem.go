package rest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/api"
	"github.com/mongodb/amboy/rest/internal/web"
)

// problemError completes the error from a body that contains a Problem.
func problemError(e *ResponseError, body []byte) bool {
	var p api.Problem
	if json.Unmarshal(body, &p) != nil || p.Title == "" {
		return false
	}
	e.StatusCode = cmp.Or(p.Status, e.StatusCode) // a proxy may leave it out
	e.Message, e.err = p.Detail, problemCause(&p)
	if e.Message == "" {
		e.Message = p.Title
	}
	return true
}

// problemCause returns the error that the same call returns in the process of the handler;
// nil if the problem does not identify one.
func problemCause(p *api.Problem) error {
	kind, _ := strings.CutPrefix(string(p.Type), api.TypePrefix)
	switch web.Kind(kind) {
	case web.KindInvalid:
		var errs []error
		for _, e := range p.Errors {
			errs = append(errs, &management.InvalidArgumentError{Field: e.Field, Value: e.Value, Rule: e.Rule})
		}
		return errors.Join(errs...)
	case web.KindInvalidJob:
		if len(p.Errors) == 0 {
			return nil
		}
		return &amboy.InvalidJobError{Field: p.Errors[0].Field, Value: p.Errors[0].Value, Rule: p.Errors[0].Rule}
	case web.KindState:
		e := &management.StateError{State: p.State, Action: management.ActionKind(p.Action), Rule: p.Rule}
		if p.Job != nil {
			e.Job = *p.Job
		}
		return e
	case web.KindDuplicateJob, web.KindDuplicateScope:
		return duplicateError(web.Kind(kind), p.Detail, p.Duplicate)
	case web.KindJobNotFound:
		return amboy.NewJobNotFoundError(p.Detail)
	default:
		return sentinelOf(web.Kind(kind), p.Detail)
	}
}

// duplicateError returns the error for a duplicate job. Older services send no details.
func duplicateError(kind web.Kind, detail string, details *web.Duplicate) error {
	switch {
	case details != nil:
		return details.Err()
	case kind == web.KindDuplicateScope:
		return amboy.NewDuplicateJobScopeError(detail)
	default:
		return amboy.NewDuplicateJobError(detail)
	}
}

// sentinelOf wraps the sentinel error for a kind of problem. It returns nil if there is none.
func sentinelOf(kind web.Kind, detail string) error {
	sentinel, known := map[web.Kind]error{
		web.KindUnknownQueue:    management.ErrUnknownQueue,
		web.KindUnsupported:     management.ErrUnsupported,
		web.KindUnknownSchedule: management.ErrUnknownSchedule,
		web.KindScheduleExists:  management.ErrScheduleExists,
		web.KindScheduleChanged: management.ErrScheduleChanged,
		web.KindQueueDraining:   amboy.ErrQueueDraining,
		web.KindQueueClosed:     amboy.ErrQueueClosed,
		web.KindNotStarted:      amboy.ErrQueueNotStarted,
		web.KindNotRecorded:     management.ErrNotRecorded,
		web.KindStoreFull:       amboy.ErrStoreFull,
	}[kind]
	if !known {
		return nil
	}
	return fmt.Errorf("%s: %w", detail, sentinel)
}
