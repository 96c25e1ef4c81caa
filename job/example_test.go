package job_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// Run a command as a job.
func ExampleShellJob() {
	j := job.NewShellJob("env", "")
	j.Env["WHO"] = "world"
	if err := amboy.RunJob(context.Background(), j); err != nil {
		log.Fatal(err)
	}
	fmt.Println(j.Output)

	j = job.NewShellJob("false", "")
	j.SetID("fails")
	fmt.Println(amboy.RunJob(context.Background(), j))
	// Output:
	// WHO=world
	// running the command of shell job "fails": exit status 1
}

// Run several jobs as one.
func ExampleGroup() {
	job.RegisterDefaultJobs() // the group stores its jobs
	g := job.NewGroup("checks")
	for id, command := range map[string]string{"first": "true", "second": "false"} {
		j := job.NewShellJob(command, "")
		j.SetID(id)
		if err := g.Add(j); err != nil {
			log.Fatal(err)
		}
	}
	err := amboy.RunJob(context.Background(), g)
	fmt.Println(err)
	fmt.Println(g.Jobs["first"].Status.ErrorCount, g.Jobs["second"].Status.ErrorCount)
	// Output:
	// job "second" of group "checks": running the command of shell job "second": exit status 1
	// 0 1
}
