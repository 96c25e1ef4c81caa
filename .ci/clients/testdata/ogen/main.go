// Finds the failed jobs of a queue, previews a retry, retries them, and follows events until they
// have ended, with the client that ogen generates.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/mongodb/amboy/.ci/clients/testdata/ogen/api"
)

type token string

func (t token) Bearer(context.Context, api.OperationName) (api.Bearer, error) {
	return api.Bearer{Token: string(t)}, nil
}

func must[T any](result T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return result
}

func main() {
	ctx := context.Background()
	client := must(api.NewClient(os.Args[1], token(os.Args[2])))
	filter := api.JobFilter{Queues: []string{"images"}, States: []api.JobState{api.JobStateFailed}}
	found := must(client.FindJobs(ctx, api.FindJobsParams{Queues: filter.Queues, States: filter.States}))
	for _, job := range found.Jobs {
		fmt.Println("failed:", job.ID, job.Error.Value)
	}
	retry := api.ActOnJobs{Action: api.ActionKindRetry, Filter: filter, Limit: 100, DryRun: api.NewOptBool(true)}
	fmt.Println("would retry:", must(client.ActOnJobs(ctx, &retry)).Done)
	retry.DryRun.SetTo(false)
	fmt.Println("retried:", must(client.ActOnJobs(ctx, &retry)).Done)
	events := must(client.WatchQueues(ctx, api.WatchQueuesParams{})).(*api.WatchQueuesOKRawTextEventStream)
	for lines := bufio.NewScanner(events.Response.Body); lines.Scan(); {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		var page api.QueuePage
		if isData && json.Unmarshal([]byte(data), &page) == nil && page.Queues[0].Counts.Pending+page.Queues[0].Counts.Running == 0 {
			fmt.Println("ended:", page.Queues[0].Counts.Completed)
			return
		}
	}
}
