package dashboard_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/management"
)

// nameless is a service whose only queue has no name.
type nameless struct{ *fake }

func (nameless) Audit(context.Context, management.AuditFilter, management.PageRequest) (management.AuditPage, error) {
	return management.AuditPage{Entries: []management.AuditEntry{{What: "control"}, {What: management.WhatPauseSchedule}, {What: "cancel", Done: 2}}}, nil
}

func (n nameless) Activity(ctx context.Context, req management.ActivityRequest) (management.Activity, error) {
	activity, err := n.fake.Activity(ctx, req)
	activity.Rows = []management.ActivityRow{{Type: "send", Failed: 1}}
	return activity, err
}

// A pause of the queue was an action on "many jobs", and failures were those of no queue.
func TestTheQueueWithoutANameWasMissing(t *testing.T) {
	s := newSite(nameless{newFake()}, "")
	page := s.get("/audit").Body.String()
	assert.Equal(t, 2, strings.Count(page, `<a href="./queues/_"><bdi>(no name)</bdi></a>`))
	assert.Equal(t, 1, strings.Count(page, "many jobs"))
	assert.Contains(t, s.get("/").Body.String(), `<a href="./queues/_"><bdi>(no name)</bdi></a>`)
}
