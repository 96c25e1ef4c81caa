package api

// The examples of requests and answers in the description.
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
