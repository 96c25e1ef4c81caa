package main

import (
	"net/http"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

const (
	localManagementPrefix  = "/amboy/local/management"
	localPoolPrefix        = "/amboy/local/pool"
	remoteManagementPrefix = "/amboy/remote/management"
	remotePoolPrefix       = "/amboy/remote/pool"
)

// Routes returns the handler of the service. Requests that manage jobs need a token.
func (e *Environment) Routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mount := func(prefix string, handler http.Handler) {
		mux.Handle(prefix+"/", http.StripPrefix(prefix, requireToken(handler)))
	}
	mount(localManagementPrefix, rest.NewManagementService(management.NewQueueManager(e.Local)).Handler())
	mount(remoteManagementPrefix, rest.NewManagementService(e.Manager).Handler())
	mount(remotePoolPrefix, rest.NewManagementGroupService(e.Remote).Handler())
	if runner, ok := e.Local.Runner().(amboy.AbortableRunner); ok {
		mount(localPoolPrefix, rest.NewAbortablePoolManagementService(runner).Handler())
	}
	return mux
}

func requireToken(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "a token is required", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
