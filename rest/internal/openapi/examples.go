package openapi

// example is an example of a request body and of its answer, as JSON; empty for none.
type example struct{ body, answer string }

// examples are those of the routes, by the names of their operations.
var examples = map[string]example{
	"listQueues":   {answer: `{"queues": [` + queueExample + `], "next": "kJ2f"}`},
	"sumQueues":    {answer: `{"queues": 1, "counts": ` + countsExample + `, "busiest": [` + queueExample + `]}`},
	"getQueue":     {answer: queueExample},
	"controlQueue": {body: `{"paused": true}`, answer: controlExample},
	"findJobs":     {answer: `{"jobs": [` + summaryExample + `], "next": "kJ2f"}`},
	"countJobs":    {answer: `{"count": 1, "more": false}`},
	"countStates":  {answer: `{"states": [{"state": "failed", "count": 1, "more": false}]}`},
	"groupErrors": {answer: `{"groups": [{"message": "no such file: #", "jobs": 1, "types": ["thumbnail"], "sample": ` + summaryExample + `}],
		"more_groups": 0, "examined": 1}`},
	"actOnJobs": {
		body:   `{"action": "retry", "filter": {"queues": ["images"], "states": ["failed"]}, "limit": 1000, "dry_run": true}`,
		answer: `{"done": 1, "skipped": 0, "states": {"failed": 1}}`,
	},
	"createJob": {createExample, createdExample},
	"getJob":    {answer: jobExample},
	"deleteJob": {answer: actedExample},
	"editJob": {
		body:   `{"args": {"path": "dog.png"}, "due": "2026-01-01T13:00:00Z", "revision": "3.1", "dry_run": true}`,
		answer: `{"changes": [{"field": "args", "from": {"path": "cat.png"}, "to": {"path": "dog.png"}}], "revision": "3.1"}`,
	},
	"actOnJob":        {body: `{"action": "cancel", "reason": "wrong file"}`, answer: actedExample},
	"getResult":       {answer: outcomeExample},
	"getGraph":        {answer: `{"jobs": [{"queue": "images", "id": "cat", "state": "failed", "type": "thumbnail", "distance": 0}], "edges": []}`},
	"leaseJobs":       {leaseExample, leasedExample},
	"acknowledgeJobs": {acknowledgeExample, acknowledgedExample},
	"renewLeases":     {heartbeatExample, renewedExample},
	"listScopes": {answer: `{"scopes": [{"queue": "images", "name": "disk", "holder": {"queue": "images", "id": "cat"}, "state": "running",
		"since": "2026-01-01T12:00:00Z", "waiting": {"count": 3, "more": false}}]}`},
	"listProcesses": {answer: `{"processes": [{"id": "web-1-4711", "host": "web-1", "pid": 4711, "started": "2026-01-01T11:00:00Z",
		"seen": "2026-01-01T12:00:00Z", "alive": true, "queues": [{"name": "images", "workers": 4, "started": true}], "running": [],
		"running_count": {"count": 0, "more": false}}]}`},
	"getActivity": {answer: `{"from": "2026-01-01T11:00:00Z", "to": "2026-01-01T12:00:00Z", "step": 60,
		"points": [{"time": "2026-01-01T11:00:00Z", "succeeded": 3, "failed": 1, "retried": 0, "wait_p99": 0.4,
			"backlog": {"ready": 12, "waiting": 3, "running": 4, "oldest_ready": 95.2}}], "rows": [` + rowExample + `], "sum": ` + rowExample + `}`},
	"listSchedules": {answer: `{"schedules": [{"queue": "images", "name": "clean", "spec": "@every 1h0m0s", "catch_up": "one",
		"last": "2026-01-01T11:00:00Z", "next": "2026-01-01T12:00:00Z", "seen": "2026-01-01T11:59:00Z"}]}`},
	"listStoredSchedules": {answer: `{"schedules": [` + storedScheduleExample + `], "next": "kJ2f"}`},
	"createSchedule":      {`{"name": "nightly", "cron": "0 3 * * *", "zone": "Europe/Berlin", "type": "thumbnail", "outside": true, "args": {"path": "cat.png"}}`, storedScheduleExample},
	"getSchedule":         {answer: storedScheduleExample},
	"changeSchedule":      {`{"cron": "0 4 * * *", "type": "thumbnail", "outside": true, "revision": "1767268800000000000"}`, storedScheduleExample},
	"pauseSchedule":       {`{"paused": true}`, storedScheduleExample},
	"deleteSchedule":      {answer: `{"queue": "images", "name": "nightly"}`},
	"triggerSchedule":     {answer: `{"queue": "images", "id": "nightly@1767268800000", "repeated": false}`},
	"getDiagnosis": {answer: `{"time": "2026-01-01T12:00:00Z", "queues": 1, "findings": [{"kind": "paused-queue", "severity": "warning",
		"subject": {"queue": "images", "in_queue": true}, "detail": "queue images has been paused for 26h",
		"why": "none of its jobs start", "remedy": "resume it", "command": "amboy queues resume images", "docs": "docs/guides/diagnose-a-store.md"}]}`},
	"listTypes": {answer: `{"types": [{"type": "thumbnail", "version": 2, "oldest_version": 1, "create": true}]}`},
	"listAudit": {answer: `{"entries": [{"time": "2026-01-01T12:00:00Z", "actor": "ann", "what": "retry", "queue": "images", "job_id": "cat",
		"detail": "{\"action\":\"retry\"}", "done": 1}]}`},
}

const (
	countsExample  = `{"pending": 2, "blocked": 0, "running": 1, "retrying": 0, "completed": 40, "total": 43}`
	controlExample = `{"paused": true, "draining": false, "max_running": 0, "workers": 0}`
	queueExample   = `{"name": "images", "control": ` + controlExample + `, "counts": ` + countsExample + `, "oldest_pending": "2026-01-01T12:00:00Z"}`
	summaryExample = `{"queue": "images", "id": "cat", "type": "thumbnail", "version": 1, "state": "failed", "priority": 0, "attempt": 5, "max_attempts": 5,
		"created": "2026-01-01T11:00:00Z", "started": "2026-01-01T11:59:00Z", "ended": "2026-01-01T11:59:01Z", "error": "no such file: 17"}`
	jobExample = `{"queue": "images", "id": "cat", "type": "thumbnail", "version": 1, "state": "failed", "priority": 0, "attempt": 5, "max_attempts": 5,
		"created": "2026-01-01T11:00:00Z", "started": "2026-01-01T11:59:00Z", "ended": "2026-01-01T11:59:01Z", "error": "no such file: 17",
		"args": {"path": "cat.png"}, "errors": [{"attempt": 5, "at": "2026-01-01T11:59:01Z", "error": "no such file: 17"}],
		"attempts": [{"number": 5, "state": "failed", "started": "2026-01-01T11:59:00Z", "ended": "2026-01-01T11:59:01Z"}], "log": [], "scopes": [],
		"depends_on": [], "dependents": [], "timeline": [{"time": "2026-01-01T11:00:00Z", "what": "created"}], "actions": ["retry", "delete"], "editable": [], "revision": "3.1"}`
	storedScheduleExample = `{"queue": "images", "name": "nightly", "cron": "0 3 * * *", "zone": "Europe/Berlin", "type": "thumbnail", "outside": true,
		"args": {"path": "cat.png"}, "created": "2026-01-01T12:00:00Z", "changed": "2026-01-01T12:00:00Z", "revision": "1767268800000000000", "next": "2026-01-02T02:00:00Z"}`
	actedExample = `{"done": 1, "skipped": 0}`
	rowExample   = `{"queue": "images", "type": "thumbnail", "succeeded": 3, "failed": 1, "retried": 0, "per_second": 0.001, "current": 0.02, "failure_rate": 0.25,
		"wait": ` + percentilesExample + `, "run": ` + percentilesExample + `}`
	percentilesExample = `{"p50": 0.1, "p90": 0.2, "p99": 0.4, "max": 0.5}`
)

// The examples of the jobs of outside workers.
const (
	createExample = `{"type": "thumbnail", "outside": true, "args": {"path": "cat.png"}, "priority": 1, "max_attempts": 5,
		"backoff": {"wait": "10s", "factor": 2, "max": "1h"}, "time_to_run": "5m", "time_to_live": "24h", "unique_key": "cat.png",
		"tags": ["images"], "metadata": {"request": "4711"}, "scopes": ["disk"], "keep": {"succeeded": "1h"}}`
	createdExample = `{"queue": "images", "id": "7XM2T5K3JQHVWUN4A6C2YDZPLB", "repeated": false}`

	outcomeExample = `{"queue": "images", "id": "7XM2T5K3JQHVWUN4A6C2YDZPLB", "state": "succeeded", "ended": true, "result": {"width": 640}}`

	leaseExample = `{"queues": ["images"], "types": ["thumbnail"], "limit": 10, "wait": "30s", "lease": "1m", "worker": "web-1/4711",
		"acknowledge": [{"token": "AQZpbWFnZXM", "complete": {"result": {"width": 640}}}]}`
	leasedExample = `{"jobs": [{"token": "AQZpbWFnZXMC", "queue": "images", "id": "7XM2T5K3JQHVWUN4A6C2YDZPLB", "type": "thumbnail", "version": 1,
		"attempt": 1, "max_attempts": 5, "args": {"path": "cat.png"}, "lease_ends": "2026-01-01T12:01:00Z", "run_by": "2026-01-01T12:05:00Z",
		"created": "2026-01-01T11:59:59Z", "tags": ["images"]}], "acknowledged": [{"done": true}]}`

	acknowledgeExample = `{"acknowledge": [
		{"token": "AQZpbWFnZXM", "complete": {"result": {"width": 640}}},
		{"token": "AQZpbWFnZXMB", "fail": {"error": "no such file", "stack": "thumbnail.py, line 12", "permanent": true}},
		{"token": "AQZpbWFnZXMC", "fail": {"error": "the disk is full", "retry_in": "10m"}},
		{"token": "AQZpbWFnZXMD", "release": {"delay": "30s", "reason": "the worker is restarted"}},
		{"token": "AQZpbWFnZXME", "checkpoint": {"args": {"path": "cat.png", "row": 200}, "again": {"delay": "1s"}}}]}`
	acknowledgedExample = `{"acknowledged": [{"done": true}, {"done": true}, {"done": true}, {"done": true},
		{"done": false, "problem": {"type": "urn:amboy:problem:lease-lost", "title": "Lease lost", "status": 409}}]}`

	heartbeatExample = `{"heartbeats": [{"token": "AQZpbWFnZXM", "progress": {"fraction": 0.5, "message": "row 100 of 200"}, "log": ["read the header"]}]}`
	renewedExample   = `{"heartbeats": [{"lease_ends": "2026-01-01T12:02:00Z", "cancel": false}]}`
)
