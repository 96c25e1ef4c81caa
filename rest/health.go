package rest

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/sharedread"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/web"
)

// Health serves the probes of an orchestrator, a load balancer or a monitor:
//
//	GET /live    200 while the process responds
//	GET /ready   200 if the process is ready for jobs, and 503 otherwise
//
// Both answer with a JSON object whose "status" is "ok" or "unavailable". That of /ready
// contains the "checks" of management.HealthChecker; for any other Inspector it checks
// whether Queues succeeds. A check takes at most five seconds, and requests within one
// second share a check.
//
// Requests are not authorized, because probes do not log in. Answers name no queue, job,
// host or user. The reason for a failing check is logged once, until the check passes
// again. Health panics for a nil inspector. It is safe for concurrent use. Requests are answered
// in time even if a store does not return when its context ends: then one goroutine waits for
// the store, and there is no other check until it returns.
func Health(i management.Inspector) http.Handler {
	if i == nil {
		panic("rest.Health: the inspector must not be nil")
	}
	h := &health{inspector: i}
	return web.NewHandler(map[string]http.HandlerFunc{
		"GET /live": func(w http.ResponseWriter, r *http.Request) {
			web.WriteJSON(w, r, http.StatusOK, healthAnswer{Status: healthOK})
		},
		"GET /ready": h.ready,
	}, refuse)
}

// The values of the status of a healthAnswer.
const (
	healthOK          = "ok"
	healthUnavailable = "unavailable"
)

type healthAnswer struct {
	Status string                   `json:"status"`
	Checks []management.HealthCheck `json:"checks,omitempty"`
}

type health struct {
	inspector management.Inspector
	checks    sharedread.Reader[[]management.HealthCheck]

	mu     sync.Mutex
	failed map[string]bool // whether each check failed last time
}

func (h *health) ready(w http.ResponseWriter, r *http.Request) {
	answer, status := healthAnswer{Status: healthOK, Checks: h.check(r.Context())}, http.StatusOK
	for _, check := range answer.Checks {
		if !check.OK {
			answer.Status, status = healthUnavailable, http.StatusServiceUnavailable
		}
	}
	web.WriteJSON(w, r, status, answer)
}

// check returns the result of a new check, or of one made within the last second.
func (h *health) check(ctx context.Context) []management.HealthCheck {
	shared, err := h.checks.Read(ctx, func(ctx context.Context) []management.HealthCheck {
		checks := h.try(ctx)
		h.log(ctx, checks)
		return checks
	})
	if err != nil {
		return []management.HealthCheck{{Name: "store", Error: "the check did not end in time"}}
	}
	return shared.Value
}

func (h *health) try(ctx context.Context) (checks []management.HealthCheck) {
	defer func() {
		if value := recover(); value != nil {
			err := fmt.Errorf("the check panicked: %v\n%s", value, debug.Stack())
			checks = []management.HealthCheck{{Name: "store", Error: "the check panicked", Err: err}}
		}
	}()
	if checker, ok := h.inspector.(management.HealthChecker); ok {
		return checker.CheckHealth(ctx)
	}
	check := management.HealthCheck{Name: "store", OK: true}
	if _, err := h.inspector.Queues(ctx); err != nil {
		check = management.HealthCheck{Name: "store", Error: web.FailureOf(ctx, err).Text, Err: err}
	}
	return []management.HealthCheck{check}
}

// log logs the checks that fail and did not fail before.
func (h *health) log(ctx context.Context, checks []management.HealthCheck) {
	failed := map[string]bool{}
	h.mu.Lock()
	before := h.failed
	for _, check := range checks {
		failed[check.Name] = !check.OK
	}
	h.failed = failed
	h.mu.Unlock()
	for _, check := range checks {
		if !check.OK && !before[check.Name] {
			logging.Error(ctx, message.Fields{"message": "process is not ready for jobs", "check": check.Name, "error": fmt.Sprint(check.Err)})
		}
	}
}
