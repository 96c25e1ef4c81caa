package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mongodb/amboy/rest/internal/web"
)

var errNoPage = &web.Failure{Status: http.StatusNotFound, Text: "The address leads nowhere."}

// partError is the error of an action on many jobs, of which some were done.
type partError struct {
	done int
	err  error
}

func (e *partError) Error() string { return fmt.Sprintf("after %d jobs: %v", e.done, e.err) }
func (e *partError) Unwrap() error { return e.err }

// problem is a failure in words for a person.
type problem struct {
	Status int
	Title  string
	Text   string
	// Hint says what to do.
	Hint string
	// Done counts the jobs that were changed before.
	Done int
}

// kindTitles and kindHints are for the kinds of failures, and those for a status where
// the kind is not among them.
var (
	kindTitles = map[web.Kind]string{
		web.KindUnknownQueue: "There is no such queue",
		web.KindJobNotFound:  "There is no such job",
		web.KindState:        "The job's state does not allow that",
		web.KindUnsupported:  "That can't be done here",
	}
	kindHints = map[web.Kind]string{
		web.KindUnknownQueue: "The list of queues has those that are there.",
		web.KindJobNotFound:  "It may have been deleted, or have ended so long ago that it is not kept any more.",
		web.KindState:        "Nothing was changed. The job may have gone on since the page was made: look at it again.",
		web.KindUnsupported:  "Nothing was changed.",
	}
	statusTitles = map[int]string{
		http.StatusBadRequest:            "That is not valid",
		http.StatusForbidden:             "You may not do this",
		http.StatusNotFound:              "There is no such page",
		http.StatusMethodNotAllowed:      "That can't be done with this page",
		http.StatusRequestTimeout:        "That took too long",
		http.StatusRequestEntityTooLarge: "That is too much",
		http.StatusUnsupportedMediaType:  "That is no form",
		http.StatusTooManyRequests:       "That is too often",
		http.StatusServiceUnavailable:    "Not now",
	}
	statusHints = map[int]string{
		http.StatusBadRequest:            "Nothing was changed. Go back, and correct it.",
		http.StatusForbidden:             "Whoever runs this service decides who may do what. Nothing was changed.",
		http.StatusNotFound:              "The navigation on top leads to all pages.",
		http.StatusRequestTimeout:        "Try again, or choose less.",
		http.StatusRequestEntityTooLarge: "Nothing was changed. Choose less.",
		http.StatusUnsupportedMediaType:  "Nothing was changed.",
		http.StatusServiceUnavailable:    "Try again in a while.",
	}
)

func problemOf(failure *web.Failure) problem {
	p := problem{
		Status: failure.Status,
		Title:  "Something went wrong here",
		Text:   failure.Text,
		Hint:   "Try again. The log of the service says more.",
	}
	for _, title := range []string{statusTitles[failure.Status], kindTitles[failure.Kind]} {
		if title != "" {
			p.Title = title
		}
	}
	for _, hint := range []string{statusHints[failure.Status], kindHints[failure.Kind]} {
		if hint != "" {
			p.Hint = hint
		}
	}
	return p
}

// fail sends a page that tells of an error. One who has gone gets none.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	failure := web.FailureOf(r.Context(), err)
	web.LogFailure(r, failure, err)
	failure.SetHeader(w.Header())
	p := problemOf(failure)
	var part *partError
	if errors.As(err, &part) {
		p.Done = part.done
	}
	err = d.show(w, p.Status, "problem", d.view(r, "", p.Title, p))
	if err == nil {
		return
	}
	web.LogFailure(r, &web.Failure{Status: http.StatusInternalServerError}, err)
	http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
}

// Refuse answers a request that no route takes, or that failed outside of this package.
func (d *Dashboard) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	d.page(func(http.ResponseWriter, *http.Request) error { return err }).ServeHTTP(w, r)
}

var _ web.Refuse = (*Dashboard)(nil).Refuse
