package main

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/batch"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
)

// api is what clients of the service call.
type api struct {
	jobs      amboy.QueueGroup
	inspector management.Inspector
	// authorize returns an error unless a request may act for a tenant.
	authorize func(r *http.Request, tenant string) error
}

func (a *api) mount(mux *http.ServeMux) {
	mux.Handle("POST /tenants/{tenant}/invoices", a.handle(a.createInvoice))
	mux.Handle("POST /tenants/{tenant}/imports", a.handle(a.createImport))
	mux.Handle("POST /tenants/{tenant}/months/{month}", a.handle(a.closeMonth))
	mux.Handle("GET /tenants/{tenant}/months/{month}", a.handle(a.showMonth))
	mux.Handle("GET /tenants/{tenant}/jobs/{id}", a.handle(a.showJob))
	mux.Handle("DELETE /tenants/{tenant}/jobs/{id}", a.handle(a.cancelJob))
}

// createInvoice puts a job whose ID says what it does, so a repeated request gets the same job.
func (a *api) createInvoice(r *http.Request, q amboy.Queue) (any, error) {
	var o order
	if err := decode(r, &o); err != nil {
		return nil, err
	}
	o.Tenant = r.PathValue("tenant") // whatever the client says
	id := "invoice." + o.Month + "." + o.Customer
	_, err := issueInvoice.Put(r.Context(), q, o, job.ID(id))
	if amboy.IsDuplicateJobError(err) {
		err = nil
	}
	return map[string]string{"job": id}, err
}

// createImport puts a job with a tag, by which operators find imports.
func (a *api) createImport(r *http.Request, q amboy.Queue) (any, error) {
	var c customers
	if err := decode(r, &c); err != nil {
		return nil, err
	}
	c.Tenant = r.PathValue("tenant")
	id, err := importCustomers.Put(r.Context(), q, c, job.Tags("import"))
	return map[string]string{"job": id}, err
}

func (a *api) closeMonth(r *http.Request, q amboy.Queue) (any, error) {
	m := month{r.PathValue("tenant"), r.PathValue("month")}
	id, err := closeMonth.Put(r.Context(), q, m, job.Priority(1))
	return map[string]string{"job": id}, err
}

// showMonth describes the batch that closeMonth put.
func (a *api) showMonth(r *http.Request, q amboy.Queue) (any, error) {
	closing, err := batch.Open(r.Context(), q, "close."+r.PathValue("month"))
	if err != nil {
		return nil, err
	}
	progress, err := closing.Progress(r.Context())
	return map[string]any{"invoices": progress.Total, "ended": progress.Ended(), "states": progress.States}, err
}

func (a *api) showJob(r *http.Request, q amboy.Queue) (any, error) {
	j, err := a.inspector.Job(r.Context(), r.PathValue("tenant"), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"state": j.State, "progress": j.Progress, "error": j.Error}
	// Results are typed in Go; j.Result has any result as JSON.
	if result, resultErr := issueInvoice.Result(r.Context(), q, j.ID); resultErr == nil {
		answer["invoice"] = result.Number
	}
	return answer, nil
}

func (a *api) cancelJob(r *http.Request, _ amboy.Queue) (any, error) {
	tenant := r.PathValue("tenant")
	ctx := management.WithActor(r.Context(), tenant) // for the audit list
	done, err := a.inspector.ActOn(ctx, tenant, r.PathValue("id"), management.Action{Kind: management.Cancel})
	return map[string]any{"canceled": done.Done}, err
}

// handle authorizes a request and opens the queue of its tenant. Get is called for each request,
// because a queue without work is closed.
func (a *api) handle(serve func(r *http.Request, q amboy.Queue) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant := r.PathValue("tenant")
		if err := a.authorize(r, tenant); err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "this needs the token of the tenant", http.StatusUnauthorized)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		q, err := a.jobs.Get(r.Context(), tenant)
		var answer any
		if err == nil {
			answer, err = serve(r, q)
		}
		if err != nil {
			http.Error(w, err.Error(), statusOf(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // fails if the client is gone
	})
}

var errBadRequest = errors.New("bad request")

func decode(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return errors.Join(errBadRequest, err)
	}
	return nil
}

func statusOf(err error) int {
	var invalid *amboy.InvalidJobError
	var state *management.StateError
	switch {
	case errors.Is(err, errBadRequest), errors.As(err, &invalid):
		return http.StatusBadRequest
	case amboy.IsJobNotFoundError(err):
		return http.StatusNotFound
	case amboy.IsDuplicateJobError(err), errors.As(err, &state):
		return http.StatusConflict
	case errors.Is(err, amboy.ErrQueueDraining), errors.Is(err, amboy.ErrQueueClosed), errors.Is(err, amboy.ErrGroupClosed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
