// Package numbering converts the numbers of attempts in the values of package management.
// In Go they start at 0, as in amboy.JobRetryInfo. In the JSON of the HTTP API and of the
// command-line tool they start at 1, as on the pages of the dashboard.
package numbering

import (
	"slices"

	"github.com/mongodb/amboy/management"
)

// ShowJob converts a job for JSON.
func ShowJob(j management.Job) management.Job { return shiftJob(j, 1) }

// ReadJob is the inverse of ShowJob.
func ReadJob(j management.Job) management.Job { return shiftJob(j, -1) }

// ShowJobs converts a list of jobs for JSON.
func ShowJobs(jobs []management.JobSummary) []management.JobSummary { return shiftJobs(jobs, 1) }

// ReadJobs is the inverse of ShowJobs.
func ReadJobs(jobs []management.JobSummary) []management.JobSummary { return shiftJobs(jobs, -1) }

// ShowProcesses converts processes, including the jobs that they run, for JSON.
func ShowProcesses(processes []management.Process) []management.Process {
	return shiftProcesses(processes, 1)
}

// ReadProcesses is the inverse of ShowProcesses.
func ReadProcesses(processes []management.Process) []management.Process {
	return shiftProcesses(processes, -1)
}

func shiftJob(j management.Job, by int) management.Job {
	j.Attempt += by
	j.Errors = slices.Clone(j.Errors)
	for i := range j.Errors {
		j.Errors[i].Attempt += by
	}
	j.Attempts = slices.Clone(j.Attempts)
	for i := range j.Attempts {
		j.Attempts[i].Number += by
	}
	return j
}

func shiftJobs(jobs []management.JobSummary, by int) []management.JobSummary {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Attempt += by
	}
	return jobs
}

func shiftProcesses(processes []management.Process, by int) []management.Process {
	processes = slices.Clone(processes)
	for i := range processes {
		processes[i].Running = shiftJobs(processes[i].Running, by)
	}
	return processes
}

// ShowErrorGroups converts groups of errors to be shown.
func ShowErrorGroups(groups management.ErrorGroups) management.ErrorGroups {
	return shiftErrorGroups(groups, 1)
}

// ReadErrorGroups is the inverse of ShowErrorGroups.
func ReadErrorGroups(groups management.ErrorGroups) management.ErrorGroups {
	return shiftErrorGroups(groups, -1)
}

func shiftErrorGroups(groups management.ErrorGroups, by int) management.ErrorGroups {
	groups.Groups = slices.Clone(groups.Groups)
	for i := range groups.Groups {
		groups.Groups[i].Sample.Attempt += by
	}
	return groups
}
