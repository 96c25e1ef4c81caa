package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/printable"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

// The exit codes, which docs/reference/command-line.md describes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitRefused     = 4
	exitNotAllowed  = 5
	exitUnconfirmed = 6
	exitJobFailed   = 7
	exitUnread      = 8
	exitInterrupted = 130
)

// exitError ends the command line with an exit code. If err is nil, nothing more is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usage returns an error for a wrong command line.
func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// exitCode returns the exit code for the error of a command.
func exitCode(err error) int {
	var exit *exitError
	var answer *rest.ResponseError
	var invalid *management.InvalidArgumentError
	var state *management.StateError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return exitNotAllowed
	case errors.As(err, &state), amboy.IsDuplicateJobError(err), errors.Is(err, amboy.ErrQueueDraining),
		errors.Is(err, management.ErrScheduleExists), errors.Is(err, management.ErrScheduleChanged):
		return exitRefused
	case amboy.IsJobNotFoundError(err), errors.Is(err, management.ErrUnknownQueue), errors.Is(err, management.ErrUnknownSchedule):
		return exitNotFound
	case errors.As(err, &invalid):
		return exitUsage
	default:
		return exitFailure
	}
}

// report prints an error to the user.
func (p *program) report(err error) {
	var exit *exitError
	if err == nil || (errors.As(err, &exit) && exit.err == nil) {
		return
	}
	var state *management.StateError
	if errors.As(err, &state) {
		err = state // complete by itself: it names the job, the action and the reason
	}
	var answer *rest.ResponseError
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound && answer.Unwrap() == nil {
		err = fmt.Errorf("%w; is --url or AMBOY_URL the URL at which the service mounts rest.Handler?", err)
	}
	if errors.As(err, &answer) && answer.StatusCode == http.StatusUnauthorized {
		reason := "the service needs a token: set AMBOY_TOKEN, or add --token-file"
		if p.hasToken {
			reason = "the token was refused: it is wrong or has expired"
		}
		err = fmt.Errorf("%s (%s %s: %d %s)", reason, answer.Method, answer.URL, answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	p.note("%s", oneLine(err.Error()))
}

// note writes a line to standard error. A write error is ignored, because there is no other
// place to report it.
func (p *program) note(format string, args ...any) {
	_, _ = fmt.Fprintln(p.Stderr, "amboy: "+printable.Text(fmt.Sprintf(format, args...)))
}
