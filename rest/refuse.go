package rest

import (
	"net/http"

	"github.com/mongodb/amboy/rest/internal/web"
)

// refuse answers a request with an error.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	f := web.FailureOf(r.Context(), err)
	web.LogFailure(r, f, err)
	f.SetHeader(w.Header())
	web.WriteJSON(w, r, f.Status, f)
}
