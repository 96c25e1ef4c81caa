package crashtest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// webClient calls the server over HTTP.
type webClient struct {
	dir  string
	http *http.Client
}

func newWebClient(dir string) *webClient {
	return &webClient{dir: dir, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}, Timeout: patience}}
}

// call sends a request, and decodes the answer. status is 0 if the server did not answer.
func (c *webClient) call(ctx context.Context, path string, body, answer any) (status int) {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addressesOf(c.dir)["http"]+path, bytes.NewReader(encoded))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return 0
	}
	content, err := io.ReadAll(response.Body)
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil || json.Unmarshal(content, answer) != nil {
		return 0
	}
	return response.StatusCode
}

// again pauses before a call is repeated. It returns false if ctx has ended.
func again(ctx context.Context) bool {
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// putOverHTTP puts a task until the server has answered, and records the outcome. If ctx
// ends, nothing is recorded.
func (c *webClient) putOverHTTP(ctx context.Context, t *task, j *journal) {
	job := map[string]any{
		"type": outsideType, "outside": true, "id": t.ID, "args": t, "priority": t.Priority, "max_attempts": t.Failures + 1,
		"backoff": map[string]string{"wait": t.RetryWait.String()}, "scopes": t.Scopes, "enqueue_scopes": t.EnqueueScope != "", "after": t.Edges,
	}
	for ctx.Err() == nil {
		var problem struct{ Type, Detail string }
		switch status := c.call(ctx, "/v2/queues/"+outsideQueue+"/jobs", job, &problem); {
		case status == http.StatusCreated, status == http.StatusOK, problem.Type == "urn:amboy:problem:duplicate-job":
			j.write(event{Kind: accepted, At: time.Now(), Job: t.ID})
			return
		case problem.Type == "urn:amboy:problem:duplicate-scope":
			j.write(event{Kind: refused, At: time.Now(), Job: t.ID, Allowed: true, Reason: problem.Detail})
			return
		case status >= 400 && status < 500:
			j.write(event{Kind: refused, At: time.Now(), Job: t.ID, Reason: fmt.Sprint(status, problem)})
			return
		}
		again(ctx)
	}
}

// webWorker is a slot of an HTTP worker.
type webWorker struct {
	*webClient
	name    string
	lease   time.Duration
	journal *journal
}

// webJob is a leased job.
type webJob struct {
	Token     string    `json:"token"`
	ID        string    `json:"id"`
	Attempt   int       `json:"attempt"`
	Args      task      `json:"args"`
	LeaseEnds time.Time `json:"lease_ends"`
}

// run runs jobs until ctx ends, and acknowledges the last one.
func (w *webWorker) run(ctx context.Context) {
	var acks []map[string]any
	for ctx.Err() == nil {
		var answer struct{ Jobs []webJob }
		request := map[string]any{
			"queues": []string{outsideQueue}, "types": []string{outsideType}, "wait": "200ms", "lease": w.lease.String(), "worker": w.name, "acknowledge": acks,
		}
		if status := w.call(context.WithoutCancel(ctx), "/v2/leases", request, &answer); status != http.StatusOK {
			again(ctx)
			continue
		}
		acks = nil
		for _, j := range answer.Jobs {
			if ack := w.runJob(&j); ack != nil { //nolint:contextcheck // A job runs to its end.
				acks = append(acks, ack)
			}
		}
	}
	for len(acks) > 0 && w.call(context.WithoutCancel(ctx), "/v2/leases/acknowledge", map[string]any{"acknowledge": acks}, &struct{}{}) != http.StatusOK {
		again(context.WithoutCancel(ctx))
	}
}

// runJob runs a job, and returns the acknowledgement; nil if the lease was lost.
func (w *webWorker) runJob(j *webJob) map[string]any {
	e := event{Kind: began, At: time.Now(), Job: j.ID, Attempt: j.Attempt - 1, Lease: countOf(j.Token), Claimed: j.LeaseEnds.Add(-w.lease)}
	if !e.At.Before(j.LeaseEnds) {
		return nil // the answer took too long
	}
	w.journal.write(e)
	e.Outcome = w.work(j, e)
	e.Kind, e.At = ended, time.Now()
	w.journal.write(e)
	switch e.Outcome {
	case done:
		return map[string]any{"token": j.Token, "complete": map[string]string{"result": resultOf(j.ID)}}
	case failed:
		last := e.Attempt == j.Args.Failures
		return map[string]any{"token": j.Token, "fail": map[string]any{"error": errPlanned.Error(), "permanent": last}}
	default:
		return nil
	}
}

// work works on a job while it has the lease, which it renews.
func (w *webWorker) work(j *webJob, e event) outcome {
	worked, beat := time.NewTimer(j.Args.Work), time.NewTicker(w.lease/4)
	defer worked.Stop()
	defer beat.Stop()
	for {
		lost := time.NewTimer(time.Until(j.LeaseEnds))
		select {
		case <-lost.C:
			return interrupted
		case <-worked.C:
			lost.Stop()
			if e.Attempt < j.Args.Failures || j.Args.Fails {
				return failed
			}
			return done
		case <-beat.C:
			lost.Stop()
		}
		var answer struct {
			Heartbeats []struct {
				LeaseEnds time.Time       `json:"lease_ends"`
				Problem   json.RawMessage `json:"problem"`
			}
		}
		ctx, cancel := context.WithDeadline(context.Background(), j.LeaseEnds)
		status := w.call(ctx, "/v2/leases/heartbeat", map[string]any{"heartbeats": []map[string]string{{"token": j.Token}}}, &answer)
		cancel()
		switch {
		case status != http.StatusOK: // the server is away
		case len(answer.Heartbeats[0].Problem) > 0:
			return interrupted
		default:
			j.LeaseEnds = answer.Heartbeats[0].LeaseEnds
			e.Kind, e.At = renewed, j.LeaseEnds.Add(-w.lease)
			w.journal.write(e)
		}
	}
}

// countOf returns the count of the lease in a token, which is a number after four texts.
func countOf(token string) int {
	form, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		panic(err)
	}
	in := bytes.NewReader(form[1:])
	for range 4 {
		size, sizeErr := binary.ReadUvarint(in)
		if sizeErr == nil {
			_, sizeErr = io.CopyN(io.Discard, in, int64(size)) //nolint:gosec // It is short.
		}
		if sizeErr != nil {
			panic(sizeErr)
		}
	}
	count, err := binary.ReadVarint(in)
	if err != nil {
		panic(err)
	}
	return int(count)
}
