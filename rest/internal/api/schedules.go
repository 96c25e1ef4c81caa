package api

import (
	"net/http"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/guard"
	"github.com/mongodb/amboy/rest/internal/names"
)

// scheduleRoutes lists the routes for stored schedules.
func scheduleRoutes() []Route {
	read := []guard.Action{guard.Read}
	write := []guard.Action{guard.Schedule}
	const one = "/v2/queues/{queue}/schedules/{name}"
	return []Route{
		{Method: http.MethodGet, Pattern: "/v2/schedules/stored", Actions: read, Name: "listStoredSchedules", Summary: "Lists a page of the stored schedules, by queue and name", Input: new(storedSchedulesInput), Answers: answers(management.StoredSchedulePage{}), serve: listStoredSchedules},
		{Method: http.MethodPost, Pattern: "/v2/queues/{queue}/schedules", Actions: write, Name: "createSchedule", Summary: "Stores a schedule that enqueues jobs", Input: new(queuePath), Body: new(NewSchedule), Answers: map[int]any{http.StatusCreated: management.StoredSchedule{}}, serve: createSchedule},
		{Method: http.MethodGet, Pattern: one, Actions: read, Name: "getSchedule", Summary: "Describes a stored schedule, with its latest runs", Input: new(schedulePath), Answers: answers(management.StoredSchedule{}), serve: getSchedule},
		{Method: http.MethodPut, Pattern: one, Actions: write, Name: "changeSchedule", Summary: "Replaces a stored schedule. Arguments that are left out stay, if the type does. A paused schedule stays paused", Input: new(schedulePath), Body: new(management.ScheduleChange), Answers: answers(management.StoredSchedule{}), serve: changeSchedule},
		{Method: http.MethodPatch, Pattern: one, Actions: write, Name: "pauseSchedule", Summary: "Pauses or resumes a stored schedule", Input: new(schedulePath), Body: new(PauseSchedule), Answers: answers(management.StoredSchedule{}), serve: pauseSchedule},
		{Method: http.MethodDelete, Pattern: one, Actions: write, Name: "deleteSchedule", Summary: "Removes a stored schedule. The jobs that it enqueued stay", Input: new(schedulePath), Answers: answers(DeletedSchedule{}), serve: deleteSchedule},
		{Method: http.MethodPost, Pattern: one + "/trigger", Actions: []guard.Action{guard.Trigger}, Name: "triggerSchedule", Summary: "Enqueues a job of a stored schedule now", Input: new(triggerInput), Answers: map[int]any{http.StatusCreated: Created{}, http.StatusOK: Created{}}, serve: triggerSchedule},
	}
}

// NewSchedule is a schedule to store.
type NewSchedule struct {
	Name string `json:"name" minLength:"1" maxLength:"128" pattern:"^[A-Za-z0-9._:/-]+$" description:"The name of the schedule, with which the IDs of its jobs begin"`
	management.ScheduleSpec
}

// PauseSchedule pauses or resumes a schedule.
type PauseSchedule struct {
	// Paused is true to pause the schedule, and false to resume it.
	Paused *bool `json:"paused"`
}

// DeletedSchedule is the answer about a schedule that was removed.
type DeletedSchedule struct {
	Queue string `json:"queue"`
	Name  string `json:"name"`
}

type schedulePath struct {
	queuePath
	Name string `path:"name" minLength:"1" maxLength:"128" description:"The name of the schedule"`
}

type triggerInput struct {
	schedulePath
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" pattern:"^[!-~]+$" description:"A request with the key of an earlier one enqueues no other job while the job of that one is kept"`
}

type storedSchedulesInput struct {
	Queue  []string `query:"queues" maxItems:"100" description:"Any of these queues"`
	Name   string   `query:"name" description:"A part of the name; case does not matter"`
	Cursor string   `query:"cursor" description:"The next of the previous page"`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" description:"The maximum number of items; the default is 50"`
}

// schedules returns the ScheduleManager of the call, which is that of a guard.
func (c *call) schedules() management.ScheduleManager {
	return c.Inspector.(management.ScheduleManager)
}

func listStoredSchedules(c *call) (answer, error) {
	var in storedSchedulesInput
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	filter := management.ScheduleFilter{Queues: in.Queue, Name: in.Name}
	found, err := c.schedules().StoredSchedules(c.r.Context(), filter, management.PageRequest{Cursor: in.Cursor, Limit: in.Limit})
	found.Schedules = notNil(found.Schedules)
	return page(found, found.Next), err
}

func createSchedule(c *call) (answer, error) {
	var in queuePath
	var body NewSchedule
	if err := c.input(&in, &body); err != nil {
		return answer{}, err
	}
	made, err := c.schedules().CreateSchedule(c.r.Context(), string(in.Queue), body.Name, body.ScheduleSpec)
	return answer{status: http.StatusCreated, value: made, location: "schedules/" + names.Escape(body.Name)}, err
}

func getSchedule(c *call) (answer, error) {
	var in schedulePath
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	found, err := c.schedules().StoredSchedule(c.r.Context(), string(in.Queue), in.Name)
	return ok(found), err
}

func changeSchedule(c *call) (answer, error) {
	var in schedulePath
	var change management.ScheduleChange
	if err := c.input(&in, &change); err != nil {
		return answer{}, err
	}
	changed, err := c.schedules().ChangeSchedule(c.r.Context(), string(in.Queue), in.Name, change)
	return ok(changed), err
}

func pauseSchedule(c *call) (answer, error) {
	var in schedulePath
	var body PauseSchedule
	if err := c.input(&in, &body); err != nil {
		return answer{}, err
	}
	if body.Paused == nil {
		return answer{}, invalid("paused", "", "is required")
	}
	changed, err := c.schedules().PauseSchedule(c.r.Context(), string(in.Queue), in.Name, *body.Paused)
	return ok(changed), err
}

func deleteSchedule(c *call) (answer, error) {
	var in schedulePath
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	err := c.schedules().DeleteSchedule(c.r.Context(), string(in.Queue), in.Name)
	return ok(DeletedSchedule{string(in.Queue), in.Name}), err
}

func triggerSchedule(c *call) (answer, error) {
	var in triggerInput
	if err := c.input(&in, nil); err != nil {
		return answer{}, err
	}
	if c.r.Header.Values(IdempotencyKey) != nil {
		if err := CheckKey(IdempotencyKey, in.IdempotencyKey); err != nil {
			return answer{}, err
		}
	}
	created, err := c.schedules().TriggerSchedule(c.r.Context(), string(in.Queue), in.Name, in.IdempotencyKey)
	result := answer{status: http.StatusCreated, value: created, location: "../../jobs/" + names.Escape(created.ID)}
	if created.Repeated {
		result.status = http.StatusOK
	}
	return result, err
}
