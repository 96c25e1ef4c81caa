package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// filterFlags are the flags of a job filter.
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
	f.flags.StringArrayVar(&f.filter.Tags, "tag", nil, "only jobs with this tag (repeat to require several)")
	f.flags.StringArrayVar(&f.filter.IDs, "id", nil, "only the job with this ID (repeat for more)")
	f.flags.StringVar(&f.filter.IDPattern, "id-pattern", "", "only jobs whose ID matches: * matches any characters, ? matches one")
	f.flags.StringVar(&f.filter.IDPart, "id-part", "", "only jobs whose ID contains this text, whatever its case")
	f.flags.StringVar(&f.filter.TypePart, "type-part", "", "only jobs whose type contains this text, whatever its case")
	f.flags.StringVar(&f.filter.TagPart, "tag-part", "", "only jobs with a tag that contains this text, whatever its case")
	f.flags.StringVar(&f.filter.ArgsPart, "args-part", "", "only jobs whose arguments, as JSON without spaces, contain this text, whatever its case")
	f.flags.StringVar(&f.filter.Error, "error", "", "only jobs whose last error contains this text, whatever its case")
	f.flags.StringVar(&f.filter.ErrorGroup, "error-group", "", "only jobs whose last error is this one, apart from numbers and IDs (see jobs errors)")
	f.flags.StringVar(&f.filter.Scope, "scope", "", "only jobs that need this scope")
	f.addRange("created", "that were created", &f.filter.Created)
	f.addRange("due", "that may start", &f.filter.Due)
	f.addRange("ended", "that ended", &f.filter.Ended)
	cmd.Flags().AddFlagSet(f.flags)
	complete(cmd, "queue", p.completeQueues)
	complete(cmd, "type", p.completeTypes)
	complete(cmd, "state", fixed(stateNames()...))
	return f
}

func (f *filterFlags) addRange(name, what string, r *management.TimeRange) {
	f.flags.Var(&timeFlag{at: &r.From}, name+"-after", "only jobs "+what+" at this time or later")
	f.flags.Var(&timeFlag{at: &r.To}, name+"-before", "only jobs "+what+" before this time")
}

// given reports whether any of the flags was set.
func (f *filterFlags) given() bool {
	given := false
	f.flags.VisitAll(func(flag *pflag.Flag) { given = given || flag.Changed })
	return given
}

// read returns the filter. It refuses empty values, such as that of an unset variable of a
// script, because they would select more than intended.
func (f *filterFlags) read() (management.JobFilter, error) {
	var err error
	f.flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && flag.Name != "queue" && hasEmpty(flag.Value) {
			err = usage("--%s must not be empty", flag.Name)
		}
	})
	for _, name := range f.states {
		if !slices.Contains(stateNames(), name) {
			err = usage("--state must be one of %s (is %q)", strings.Join(stateNames(), ", "), name)
		}
		f.filter.States = append(f.filter.States, amboy.JobState(name))
	}
	return f.filter, err
}

// neverEmpty are flags whose empty value, such as that of an unset variable of a script, would mean the
// same as no flag: another service, store or identity, or something else than was meant.
var neverEmpty = []string{
	"url", "token", "token-file", "store", "database", "schema", "collection", "config", "tls-cert", "tls-key",
	"listen", "tokens", "workq", "pinlater", "pinlater-queues", "pinlater-servers", "pinlater-admin-password-hash",
	"args", "args-file", "id", "idempotency-key", "revision", "rate", "zone",
}

// refuseEmpty returns an error if one of the flags neverEmpty was given an empty value.
func refuseEmpty(flags *pflag.FlagSet) error {
	for _, name := range neverEmpty {
		if flag := flags.Lookup(name); flag != nil && flag.Changed && hasEmpty(flag.Value) {
			return usage("--%s must not be empty", name)
		}
	}
	return nil
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
