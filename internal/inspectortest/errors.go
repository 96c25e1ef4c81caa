package inspectortest

import "github.com/mongodb/amboy/management"

// ErrorGroups returns a group for each of the jobs that has an error.
func ErrorGroups(jobs []management.JobSummary) []management.ErrorGroup {
	groups := []management.ErrorGroup{}
	for _, j := range jobs {
		if j.Error != "" {
			groups = append(groups, management.ErrorGroup{
				Message: management.FoldError(j.Error), Jobs: 1, Types: []string{j.Type}, First: j.Started, Last: j.Ended, Sample: j,
			})
		}
	}
	return groups
}
