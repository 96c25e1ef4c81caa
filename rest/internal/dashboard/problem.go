package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mongodb/amboy/rest/internal/web"
)

var errNoPage = &web.Failure{Status: http.StatusNotFound, Text: "No page has this address."}

// partError is the error of an action on many jobs that was partly done.
type partError struct {
	done int
	err  error
}

func (e *partError) Error() string { return fmt.Sprintf("after %d jobs: %v", e.done, e.err) }
func (e *partError) Unwrap() error { return e.err }

// problem describes a failure to an operator.
type problem struct {
	Status int
	Title  string
	Text   string
	// Hint suggests what to do.
	Hint string
	// Done is the number of jobs that were changed before the failure.
	Done int
}

// kindTitles and kindHints describe the kinds of failures. statusTitles and statusHints
// are for failures of other kinds.
var (
	kindTitles = map[web.Kind]string{
		web.KindUnknownQueue:    "No such queue",
		web.KindJobNotFound:     "No such job",
		web.KindState:           "The job's state does not allow that",
		web.KindUnsupported:     "That is not supported here",
		web.KindUnknownSchedule: "No such schedule",
		web.KindScheduleExists:  "The schedule exists",
		web.KindScheduleChanged: "The schedule has changed",
		web.KindNotRecorded:     "It was done, but not recorded",
		web.KindStoreFull:       "The disk of the store is full",
	}
	kindHints = map[web.Kind]string{
		web.KindUnknownQueue:    "See the list of queues.",
		web.KindJobNotFound:     "It may have been deleted, or removed some time after it ended.",
		web.KindState:           "Nothing was changed. The job may have changed since the page was loaded. Reload it and try again.",
		web.KindUnsupported:     "Nothing was changed.",
		web.KindUnknownSchedule: "It may have been deleted. See the list of schedules.",
		web.KindScheduleChanged: "Your change was not made. Open the schedule again, see what is different, and change it.",
		web.KindScheduleExists:  "Nothing was changed. Choose another name, or change the schedule that has it.",
		web.KindNotRecorded:     "Look at the jobs before you repeat it. The log of the service has the details.",
		web.KindStoreFull:       "Running jobs go on, and their ends are written once there is room.",
	}
	statusTitles = map[int]string{
		http.StatusBadRequest:            "That is not valid",
		http.StatusUnauthorized:          "You are not logged in",
		http.StatusForbidden:             "Access denied",
		http.StatusNotFound:              "Page not found",
		http.StatusMethodNotAllowed:      "The page does not support this",
		http.StatusRequestTimeout:        "That took too long",
		http.StatusRequestEntityTooLarge: "The request is too large",
		http.StatusUnsupportedMediaType:  "The request is not a form",
		http.StatusTooManyRequests:       "Too many requests",
		http.StatusServiceUnavailable:    "Temporarily unavailable",
	}
	statusHints = map[int]string{
		http.StatusBadRequest:            "Nothing was changed. Go back, and correct it.",
		http.StatusUnauthorized:          "Nothing was changed. Use a new link to log in.",
		http.StatusForbidden:             "Nothing was changed. The service decides which users may do this.",
		http.StatusNotFound:              "Use the navigation at the top.",
		http.StatusRequestTimeout:        "Try again, or select fewer jobs.",
		http.StatusRequestEntityTooLarge: "Nothing was changed. Select fewer jobs.",
		http.StatusUnsupportedMediaType:  "Nothing was changed.",
		http.StatusServiceUnavailable:    "Try again later.",
	}
)

func problemOf(failure *web.Failure) problem {
	p := problem{
		Status: failure.Status,
		Title:  "Something went wrong",
		Text:   failure.Text,
		Hint:   "Try again. The log of the service has the details.",
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

// fail sends a page that describes an error, unless the client has disconnected.
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

// Refuse answers a request that has no route, or that failed outside of this package.
func (d *Dashboard) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	d.page(func(http.ResponseWriter, *http.Request) error { return err }).ServeHTTP(w, r)
}

var _ web.Refuse = (*Dashboard)(nil).Refuse
