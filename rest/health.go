package rest

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/web"
)

const (
	// healthTimeout is the maximum duration of a check.
	healthTimeout = 5 * time.Second
	// healthShared is how long the result of a check is shared, so that many requests
	// cost the store no more than one.
	healthShared = time.Second
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
// again. Health panics for a nil inspector. It is safe for concurrent use, and its only
// goroutines belong to its requests.
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

	mu     sync.Mutex
	latest *sharedCheck
	failed map[string]bool // whether each check failed last time
}

// sharedCheck is a check whose result several requests share.
type sharedCheck struct {
	done   chan struct{} // closed when the other fields are set
	at     time.Time
	checks []management.HealthCheck
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
	shared, owned := h.join()
	if owned {
		h.run(ctx, shared)
		return shared.checks
	}
	waiting, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	select {
	case <-shared.done:
		return shared.checks
	case <-waiting.Done():
		return []management.HealthCheck{{Name: "store", Error: "the check did not end in time"}}
	}
}

// join returns the current check, or a new one that the caller must run.
func (h *health) join() (shared *sharedCheck, owned bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.latest != nil {
		select {
		case <-h.latest.done:
			if time.Since(h.latest.at) < healthShared {
				return h.latest, false
			}
		default: // it is running
			return h.latest, false
		}
	}
	h.latest = &sharedCheck{done: make(chan struct{})}
	return h.latest, true
}

// run runs a check. The check does not end with the request, because other requests wait
// for it.
func (h *health) run(ctx context.Context, shared *sharedCheck) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
	defer cancel()
	defer close(shared.done)
	shared.checks = h.try(limited)
	shared.at = time.Now()
	h.log(limited, shared.checks)
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
