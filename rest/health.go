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
	// healthTime is how long a check may take.
	healthTime = 5 * time.Second
	// healthShared is how old the result of a check may be, so that many who ask cost the
	// store no more than one.
	healthShared = time.Second
)

// Health serves what an orchestrator, a load balancer or a monitor asks a process:
//
//	GET /live    200 while the process answers
//	GET /ready   200 if it is ready for jobs, and 503 if it is not
//
// Both answer with a JSON object whose "status" is "ok" or "unavailable"; that of /ready has
// the "checks" of management.HealthChecker, or whether Queues works for another Inspector. A
// check takes five seconds at most, and requests within a second share one.
//
// Nobody is asked who may see this, because probes do not log in: it names no queue, no job,
// no host and no user. Why a check fails is in the log, once until it works again. Health
// panics for a nil inspector. It is safe for concurrent use, and has no goroutines but those
// of its requests.
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
	failed map[string]bool // the checks that failed when they were last made
}

// sharedCheck is a check that several requests may wait for.
type sharedCheck struct {
	done  chan struct{} // closed when the rest is set
	at    time.Time
	tried []management.HealthCheck
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

// check returns the result of a check that is made now, or was a moment ago.
func (h *health) check(ctx context.Context) []management.HealthCheck {
	shared, mine := h.join()
	if mine {
		h.run(ctx, shared)
		return shared.tried
	}
	patience, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	select {
	case <-shared.done:
		return shared.tried
	case <-patience.Done():
		return []management.HealthCheck{{Name: "store", Error: "the check has not ended in time"}}
	}
}

// join returns a check, and whether the caller is to make it.
func (h *health) join() (shared *sharedCheck, mine bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.latest != nil {
		select {
		case <-h.latest.done:
			if time.Since(h.latest.at) < healthShared {
				return h.latest, false
			}
		default: // it is being made
			return h.latest, false
		}
	}
	h.latest = &sharedCheck{done: make(chan struct{})}
	return h.latest, true
}

// run makes a check, which does not end with the request: others wait for it.
func (h *health) run(ctx context.Context, shared *sharedCheck) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTime)
	defer cancel()
	defer close(shared.done)
	shared.tried = h.try(limited)
	shared.at = time.Now()
	h.log(limited, shared.tried)
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

// log tells of checks that fail and did not before.
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
			logging.Error(ctx, message.Fields{"message": "a process is not ready for jobs", "check": check.Name, "error": fmt.Sprint(check.Err)})
		}
	}
}
