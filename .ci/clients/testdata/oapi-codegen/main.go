// Finds the failed jobs of a queue, previews a retry, retries them, and follows events until they
// have ended, with the client that oapi-codegen generates.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/mongodb/amboy/.ci/clients/testdata/oapi-codegen/api"
)

func must[T any](result T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return result
}

func main() {
	ctx := context.Background()
	client := must(api.NewClientWithResponses(os.Args[1], api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Args[2])
		return nil
	})))
	queues, states, dryRun := []string{"images"}, []api.JobState{api.JobStateFailed}, true
	found := must(client.FindJobsWithResponse(ctx, &api.FindJobsParams{Queues: &queues, States: &states}))
	for _, job := range found.JSON200.Jobs {
		fmt.Println("failed:", job.Id, *job.Error)
	}
	retry := api.ActOnJobs{Action: api.ActionKindRetry, Filter: api.JobFilter{Queues: &queues, States: &states}, Limit: 100, DryRun: &dryRun}
	fmt.Println("would retry:", must(client.ActOnJobsWithResponse(ctx, retry)).JSON200.Done)
	dryRun = false
	fmt.Println("retried:", must(client.ActOnJobsWithResponse(ctx, retry)).JSON200.Done)
	events := must(client.WatchQueues(ctx, nil))
	for lines := bufio.NewScanner(events.Body); lines.Scan(); {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		var page api.QueuePage
		if isData && json.Unmarshal([]byte(data), &page) == nil && page.Queues[0].Counts.Pending+page.Queues[0].Counts.Running == 0 {
			fmt.Println("ended:", page.Queues[0].Counts.Completed)
			return
		}
	}
}
