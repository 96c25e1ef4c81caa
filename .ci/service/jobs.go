package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/grip/message"
	"github.com/pkg/errors"
	"go.opentelemetry.io/otel"
)

const (
	provisionHostJobName = "host-provision"
	watchHostJobName     = "host-watch"
	statsJobName         = "stats"
)

func init() {
	registry.AddJobType(provisionHostJobName, func() amboy.Job { return makeProvisionHostJob() })
	registry.AddJobType(watchHostJobName, func() amboy.Job { return makeWatchHostJob() })
	registry.AddJobType(statsJobName, func() amboy.Job { return makeStatsJob() })
}

// provisionHostJob provisions a host. It is retried until it succeeds, and no other job may
// change the host meanwhile.
type provisionHostJob struct {
	HostID   string `bson:"host_id" json:"host_id" yaml:"host_id"`
	job.Base `bson:"metadata" json:"metadata" yaml:"metadata"`

	env *Environment
}

func makeProvisionHostJob() *provisionHostJob {
	j := &provisionHostJob{Base: job.Base{JobType: amboy.JobType{Name: provisionHostJobName, Version: 1}}}
	return j
}

// NewProvisionHostJob returns a job for the queue of the host's region.
func NewProvisionHostJob(hostID, id string) amboy.Job {
	j := makeProvisionHostJob()
	j.HostID = hostID
	j.SetID(fmt.Sprintf("%s.%s.%s", provisionHostJobName, hostID, id))
	j.SetScopes([]string{fmt.Sprintf("%s.%s", provisionHostJobName, hostID)})
	j.SetEnqueueAllScopes(true)
	retryable, attempts, wait := true, 5, 10*time.Millisecond
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable, MaxAttempts: &attempts, WaitUntil: &wait})
	j.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: time.Minute})
	return j
}

// Run provisions the host.
func (j *provisionHostJob) Run(ctx context.Context) {
	defer j.MarkComplete()
	ctx, span := otel.Tracer("fleet").Start(ctx, provisionHostJobName)
	defer span.End()
	if j.env == nil {
		j.env = GetEnvironment()
	}
	if err := j.env.Hosts.Provision(j.HostID); err != nil {
		j.AddRetryableError(errors.Wrapf(err, "provisioning host %q", j.HostID))
		return
	}
	j.env.Log.Info(ctx, message.Fields{
		"message": "provisioned host",
		"host":    j.HostID,
		"attempt": j.RetryInfo().CurrentAttempt,
		"job":     j.ID(),
	})
}

// watchHostJob runs until it is aborted.
type watchHostJob struct {
	HostID   string `bson:"host_id" json:"host_id" yaml:"host_id"`
	job.Base `bson:"metadata" json:"metadata" yaml:"metadata"`
}

func makeWatchHostJob() *watchHostJob {
	return &watchHostJob{Base: job.Base{JobType: amboy.JobType{Name: watchHostJobName, Version: 1}}}
}

// NewWatchHostJob returns a job that watches a host.
func NewWatchHostJob(hostID string) amboy.Job {
	j := makeWatchHostJob()
	j.HostID = hostID
	j.SetID(fmt.Sprintf("%s.%s", watchHostJobName, hostID))
	return j
}

// Run watches the host.
func (j *watchHostJob) Run(ctx context.Context) {
	defer j.MarkComplete()
	GetEnvironment().Hosts.watch(j.HostID)
	<-ctx.Done()
	j.AddError(errors.Wrapf(ctx.Err(), "watching host %q", j.HostID))
}

// statsJob logs the state of the local queue.
type statsJob struct {
	job.Base `bson:"metadata" json:"metadata" yaml:"metadata"`
}

func makeStatsJob() *statsJob {
	return &statsJob{Base: job.Base{JobType: amboy.JobType{Name: statsJobName, Version: 1}}}
}

// NewStatsJob returns a job for the local queue.
func NewStatsJob(id string) amboy.Job {
	j := makeStatsJob()
	j.SetID(fmt.Sprintf("%s.%s", statsJobName, id))
	return j
}

// Run logs the state of the local queue.
func (j *statsJob) Run(ctx context.Context) {
	defer j.MarkComplete()
	env := GetEnvironment()
	stats := env.Local.Stats(ctx)
	env.Log.Info(ctx, message.Fields{"message": "queue stats", "running": stats.Running, "pending": stats.Pending})
}

// Hosts stands for a provider of hosts that fails the first time.
type Hosts struct {
	mu          sync.Mutex
	attempts    map[string]int
	provisioned chan string
	watched     chan string
}

// NewHosts returns a provider.
func NewHosts() *Hosts {
	return &Hosts{attempts: map[string]int{}, provisioned: make(chan string, 100), watched: make(chan string, 100)}
}

// Provision provisions a host.
func (h *Hosts) Provision(id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attempts[id]++
	if h.attempts[id] == 1 {
		return errors.New("the provider is busy")
	}
	if h.attempts[id] == 2 {
		h.provisioned <- id
	}
	return nil
}

// Attempts returns how often a host was provisioned.
func (h *Hosts) Attempts(id string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attempts[id]
}

func (h *Hosts) watch(id string) { h.watched <- id }
