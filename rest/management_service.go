package rest

import (
	"net/http"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/web"
)

// ManagementService serves a management.Manager over HTTP (see Handler). It is safe for
// concurrent use.
type ManagementService struct{ manager management.Manager }

// NewManagementService returns a service for a manager. If the manager is nil, the service
// answers with status 503.
func NewManagementService(m management.Manager) *ManagementService {
	return &ManagementService{manager: m}
}

// completed is the answer to a request that marked jobs complete.
type completed struct {
	Message string `json:"message"`
	JobName string `json:"job_name,omitempty"`
	JobType string `json:"job_type,omitempty"`
}

// Handler serves these routes, relative to the prefix that the program removes. Each is a
// method of management.Manager, and accepts every filter:
//
//	GET  /v1/status/{filter}                                          JobStatus
//	GET  /v1/id/status/{filter}/type/{type}                           JobIDsByState
//	POST /v1/jobs/mark_complete/id/{name}                             CompleteJob
//	POST /v1/jobs/mark_complete/status/{filter}                       CompleteJobs
//	POST /v1/jobs/mark_complete/status/{filter}/type/{type}           CompleteJobsByType
//	POST /v1/jobs/mark_complete/status/{filter}/pattern/{pattern}     CompleteJobsByPattern
//
// The answers are [{"Type","Group","Count"}], [{"ID","group"}], and {"message"} with a "job_name" or
// a "job_type".
//
// Without options it allows every request. With options it follows the rules of the
// function Handler: see Authorize, Actor, Audit and Hosts. Requests are authorized for all queues.
func (s *ManagementService) Handler(opts ...Option) http.Handler {
	routes := map[string]http.HandlerFunc{
		"GET /v1/status/{filter}":                                       s.countJobs,
		"GET /v1/id/status/{filter}/type/{type}":                        s.listJobs,
		"POST /v1/jobs/mark_complete/id/{name}":                         s.completeJob,
		"POST /v1/jobs/mark_complete/status/{filter}":                   s.completeJobs,
		"POST /v1/jobs/mark_complete/status/{filter}/type/{type}":       s.completeJobsByType,
		"POST /v1/jobs/mark_complete/status/{filter}/pattern/{pattern}": s.completeJobsByPattern,
	}
	if s.manager == nil {
		for pattern := range routes {
			routes[pattern] = func(w http.ResponseWriter, r *http.Request) { refuse(w, r, errNoManager) }
		}
	}
	return newServiceHandler(routes, nil, opts)
}

var errNoManager = &web.Failure{Status: http.StatusServiceUnavailable, Text: "the service has no manager"}

// filter returns the filter in the path of a request. The manager validates it.
func filter(r *http.Request) management.StatusFilter {
	return management.StatusFilter(r.PathValue("filter"))
}

func (s *ManagementService) countJobs(w http.ResponseWriter, r *http.Request) {
	counts, err := s.manager.JobStatus(r.Context(), filter(r))
	if err != nil {
		refuse(w, r, err)
		return
	}
	web.WriteArray(w, r, counts)
}

func (s *ManagementService) listJobs(w http.ResponseWriter, r *http.Request) {
	jobType, err := parameter(r, "type")
	if err != nil {
		refuse(w, r, err)
		return
	}
	ids, err := s.manager.JobIDsByState(r.Context(), jobType, filter(r))
	if err != nil {
		refuse(w, r, err)
		return
	}
	web.WriteArray(w, r, ids)
}

func (s *ManagementService) completeJob(w http.ResponseWriter, r *http.Request) {
	id, err := jobID(r)
	if err == nil {
		err = s.manager.CompleteJob(r.Context(), id)
	}
	answerCompleted(w, r, completed{Message: "marked the job complete", JobName: id}, err)
}

func (s *ManagementService) completeJobs(w http.ResponseWriter, r *http.Request) {
	err := s.manager.CompleteJobs(r.Context(), filter(r))
	answerCompleted(w, r, completed{Message: "marked the jobs complete"}, err)
}

func (s *ManagementService) completeJobsByType(w http.ResponseWriter, r *http.Request) {
	jobType, err := parameter(r, "type")
	if err == nil {
		err = s.manager.CompleteJobsByType(r.Context(), filter(r), jobType)
	}
	answerCompleted(w, r, completed{Message: "marked the jobs of the type complete", JobType: jobType}, err)
}

func (s *ManagementService) completeJobsByPattern(w http.ResponseWriter, r *http.Request) {
	pattern, err := parameter(r, "pattern")
	if err == nil {
		err = s.manager.CompleteJobsByPattern(r.Context(), filter(r), pattern)
	}
	answerCompleted(w, r, completed{Message: "marked the jobs with matching IDs complete"}, err)
}

func answerCompleted(w http.ResponseWriter, r *http.Request, answer completed, err error) {
	if err != nil {
		refuse(w, r, err)
		return
	}
	web.WriteJSON(w, r, http.StatusOK, answer)
}
