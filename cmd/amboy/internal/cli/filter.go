package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// filterFlags are the flags that select jobs.
type filterFlags struct {
	flags  *pflag.FlagSet
	filter management.JobFilter
	states []string
}

func (p *program) addFilterFlags(cmd *cobra.Command) *filterFlags {
	f := &filterFlags{flags: pflag.NewFlagSet("filter", pflag.ContinueOnError)}
	f.flags.StringArrayVar(&f.filter.Queues, "queue", nil, "only jobs of this queue (repeat for more)")
	f.flags.StringSliceVar(&f.states, "state", nil, "only jobs in this state: "+strings.Join(stateNames(), ", ")+" (repeat for more)")
	f.flags.StringArrayVar(&f.filter.Types, "type", nil, "only jobs of this type (repeat for more)")
	f.flags.StringArrayVar(&f.filter.Tags, "tag", nil, "only jobs that have this tag (repeat for all of several)")
	f.flags.StringArrayVar(&f.filter.IDs, "id", nil, "only the job with this ID (repeat for more)")
	f.flags.StringVar(&f.filter.IDPattern, "id-pattern", "", "only jobs with such an ID: * stands for any characters, ? for one")
	f.flags.StringVar(&f.filter.Error, "error", "", "only jobs whose last error has this in it")
	f.flags.StringVar(&f.filter.Scope, "scope", "", "only jobs that need this scope")
	f.addRange("created", "that were put", &f.filter.Created)
	f.addRange("due", "that may start", &f.filter.Due)
	f.addRange("ended", "that ended", &f.filter.Ended)
	cmd.Flags().AddFlagSet(f.flags)
	complete(cmd, "queue", p.completeQueues)
	complete(cmd, "state", fixed(stateNames()...))
	return f
}

func (f *filterFlags) addRange(name, what string, r *management.TimeRange) {
	f.flags.Var(when{&r.From}, name+"-after", "only jobs "+what+" at this time or later")
	f.flags.Var(when{&r.To}, name+"-before", "only jobs "+what+" before this time")
}

// given is true where a filter was asked for.
func (f *filterFlags) given() bool {
	given := false
	f.flags.VisitAll(func(flag *pflag.Flag) { given = given || flag.Changed })
	return given
}

// read returns the filter. It refuses empty values, as those of a variable that a script
// has forgotten to set: they would select more than was meant.
func (f *filterFlags) read() (management.JobFilter, error) {
	var err error
	f.flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && flag.Name != "queue" && hasEmpty(flag.Value) {
			err = usage("--%s must not be empty", flag.Name)
		}
	})
	for _, name := range f.states {
		if !slices.Contains(stateNames(), name) {
			err = usage("--state must be one of %s, and is %q", strings.Join(stateNames(), ", "), name)
		}
		f.filter.States = append(f.filter.States, amboy.JobState(name))
	}
	return f.filter, err
}

func hasEmpty(value pflag.Value) bool {
	if list, ok := value.(pflag.SliceValue); ok {
		return len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
	}
	return value.String() == ""
}

func stateNames() []string {
	var names []string
	for _, state := range amboy.JobStates() {
		names = append(names, string(state))
	}
	return names
}
