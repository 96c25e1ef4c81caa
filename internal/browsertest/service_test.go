package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/rest"
	"github.com/mongodb/amboy/schedule"
)

// prefix is the path at which the service mounts the dashboard.
const prefix = "/ops/jobs"

// service is a running service with two tenants and a dashboard.
type service struct {
	t     *testing.T
	group amboy.QueueGroup
	url   string
	// inspector is what the dashboard shows.
	inspector management.Inspector
}

// address contains the arguments of the jobs.
type address struct {
	Name string `bson:"name" json:"name"`
}

// printer prints invoices. While it does not work, they fail; otherwise they wait for paper.
type printer struct {
	works atomic.Bool
	paper chan struct{} // each job receives one element
}

var printers atomic.Pointer[printer]

var errJam = errors.New("the printer has a paper jam")

var (
	invoice = job.Define("invoice", 1, printInvoice)
	step    = job.Define("step", 1, func(context.Context, address) error { return nil })
)

func printInvoice(ctx context.Context, to address) error {
	p := printers.Load()
	job.Log(ctx, "printing the invoice of %s", to.Name)
	if !p.works.Load() {
		panic(errJam) // so that the error has a stack
	}
	select {
	case <-p.paper:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newService starts a service that authorizes every request.
func newService(t *testing.T) *service {
	t.Helper()
	return newServiceKeeping(t, 1000)
}

// newServiceKeeping starts a service that keeps a number of finished jobs.
func newServiceKeeping(t *testing.T, finished int) *service {
	t.Helper()
	printers.Store(&printer{paper: make(chan struct{})})
	store, err := memory.New(memory.Options{KeepFinished: finished})
	require.NoError(t, err)
	group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 2},
	})
	require.NoError(t, err)
	inspector, err := management.NewGroupInspector(group)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, rest.Handler(inspector,
		rest.Authorize(func(*http.Request, rest.Access) error { return nil }),
		rest.Actor(func(*http.Request) string { return "Ada" }),
		rest.Title("Invoices"),
		rest.CreateTypes(invoice.Type().Name, step.Type().Name),
	)))
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		require.NoError(t, group.Close(context.Background()))
	})
	return &service{t, group, server.URL + prefix + "/", inspector}
}

// queue returns the queue of a tenant.
func (s *service) queue(tenant string) amboy.Queue {
	s.t.Helper()
	q, err := s.group.Get(s.t.Context(), tenant)
	require.NoError(s.t, err)
	return q
}

// recordBacklog stores backlogs of a minute, as the processes of a service do once a minute.
func (s *service) recordBacklog(at time.Time, rows ...activity.Backlog) {
	s.t.Helper()
	store, ok := queue.StoreOfGroup(s.group)
	require.True(s.t, ok)
	b := activity.Backlogs{Step: activity.Minute, Start: at.Truncate(time.Minute), Rows: rows}
	for _, row := range rows {
		b.Sum.Add(row)
	}
	require.NoError(s.t, store.Admin().Keep(s.t.Context(), b.Note("")))
}

// control returns the controls of a tenant's queue.
func (s *service) control(tenant string) amboy.QueueControl {
	s.t.Helper()
	set, err := s.queue(tenant).(amboy.QueueController).Control(s.t.Context())
	require.NoError(s.t, err)
	return set
}

// failInvoices puts invoices of a tenant, each of which panics.
func (s *service) failInvoices(tenant string, n int) {
	s.t.Helper()
	for i := range n {
		_, err := invoice.Put(s.t.Context(), s.queue(tenant), address{fmt.Sprint("customer ", i)}, job.ID(fmt.Sprint("invoice-", i)), job.Tags("monthly"))
		require.NoError(s.t, err)
	}
	require.True(s.t, amboy.Wait(s.t.Context(), s.queue(tenant)))
}

// putChain puts an order that waits for a parcel, which waits for an approval, which is due
// tomorrow.
func (s *service) putChain() {
	s.t.Helper()
	for _, link := range []struct {
		id   string
		opts []job.Option
	}{
		{"approval", []job.Option{job.In(24 * time.Hour)}},
		{"parcel", []job.Option{job.After("approval")}},
		{"order", []job.Option{job.After("parcel")}},
	} {
		_, err := step.Put(s.t.Context(), s.queue("acme"), address{"Grace"}, append(link.opts, job.ID(link.id))...)
		require.NoError(s.t, err)
	}
}

// putHostile puts a job whose texts are long and reorder what is around them, which waits for a
// scope and depends on a job with such a text.
func (s *service) putHostile(tenant string) {
	s.t.Helper()
	_, err := step.Put(s.t.Context(), s.queue(tenant), address{hostileText}, job.In(24*time.Hour), job.ID("first "+hostileText), job.Tags(hostileText))
	require.NoError(s.t, err)
	_, err = step.Put(s.t.Context(), s.queue(tenant), address{hostileText}, job.ID(hostileID), job.After("first "+hostileText),
		job.Tags(hostileText), job.Metadata(map[string]string{hostileText: hostileText}), job.Scopes(hostileText))
	require.NoError(s.t, err)
}

// newBusyService starts a service with jobs in many states, scopes and a schedule.
func newBusyService(t *testing.T) *service {
	t.Helper()
	s := newService(t)
	s.failInvoices("acme", 5)
	printers.Load().works.Store(true)
	s.putChain()
	require.NoError(t, amboy.LimitType(t.Context(), s.queue("acme"), invoice.Type().Name, amboy.TypeLimit{MaxRunning: 3, Rate: &amboy.Rate{PerSecond: 100}}))
	for i := range 3 {
		_, err := invoice.Put(t.Context(), s.queue("globex"), address{"Grace"}, job.ID(fmt.Sprint("bill-", i)), job.Scopes("printer"))
		require.NoError(t, err)
	}
	s.keepSchedule("globex")
	s.storeSchedules("globex", "weekly-bills", "hourly-check")
	return s
}

// storeSchedules stores schedules of bills. The first has run, and the others are paused.
func (s *service) storeSchedules(tenant string, names ...string) {
	s.t.Helper()
	s.queue(tenant)
	manager := s.inspector.(management.ScheduleManager)
	for n, name := range names {
		spec := management.ScheduleSpec{
			Cron: "30 8 * * MON-FRI", Zone: "Europe/Berlin", Paused: n > 0,
			ScheduledJob: management.ScheduledJob{Type: step.Type().Name, Args: json.RawMessage(`{"name":"Grace"}`)},
		}
		_, err := manager.CreateSchedule(s.t.Context(), tenant, name, spec)
		require.NoError(s.t, err)
	}
	run, err := manager.TriggerSchedule(s.t.Context(), tenant, names[0], "")
	require.NoError(s.t, err)
	require.NoError(s.t, step.Wait(s.t.Context(), s.queue(tenant), run.ID))
}

// keepSchedule schedules bills to be printed each night. Another schedule fails, so that the
// diagnosis has a finding.
func (s *service) keepSchedule(tenant string) {
	s.t.Helper()
	scheduler, err := schedule.New(s.queue(tenant), schedule.Options{})
	require.NoError(s.t, err)
	nightly, err := schedule.Cron("30 2 * * *", "Europe/Berlin")
	require.NoError(s.t, err)
	bill := schedule.JobOf(invoice, func(tick time.Time) address { return address{tick.Format(time.DateOnly)} })
	require.NoError(s.t, scheduler.Add("nightly-bills", nightly, bill, schedule.CatchUpLatest))
	require.NoError(s.t, scheduler.Start(s.t.Context()))
	s.t.Cleanup(func() { scheduler.Close(context.Background()) })
	failing := amboy.ScheduleInfo{Name: "hourly-reminders", Spec: "@hourly", Next: time.Now().Add(-time.Minute), Error: "the queue is full"}
	require.NoError(s.t, s.queue(tenant).(amboy.ScheduleTeller).TellSchedules(s.t.Context(), failing))
}
