package cli

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mongodb/amboy/management"
)

// pageFlags are the flags of commands with long lists.
type pageFlags struct {
	limit  int
	cursor string
	all    bool
}

func addPageFlags(cmd *cobra.Command) *pageFlags {
	p := &pageFlags{}
	cmd.Flags().IntVar(&p.limit, "limit", management.DefaultLimit, "the maximum number of items")
	cmd.Flags().StringVar(&p.cursor, "cursor", "", "continue after the end of the previous list")
	cmd.Flags().BoolVar(&p.all, "all", false, "list all items")
	cmd.MarkFlagsMutuallyExclusive("limit", "all")
	return p
}

// collect requests pages until it has as many items as the flags allow. It returns the items,
// and the cursor for more.
func collect[T any](flags *pageFlags, newest bool, ask func(management.PageRequest) ([]T, string, error)) (items []T, next string, err error) {
	most := flags.limit
	if flags.all {
		most = math.MaxInt
	}
	if most < 1 {
		return nil, "", usage("--limit must be at least 1 (is %d)", most)
	}
	items, next = []T{}, flags.cursor
	for {
		var found []T
		found, next, err = ask(management.PageRequest{
			Cursor: next, Limit: min(most-len(items), management.MaxLimit), Newest: newest,
		})
		if err != nil {
			return nil, "", err
		}
		items = append(items, found...)
		if next == "" || len(items) >= most {
			return items, next, nil
		}
	}
}

// hintNext prints how to list more items. A cursor continues a list with the same filter, so the
// flags whose times were given as durations must keep these times.
func (p *program) hintNext(cmd *cobra.Command, next string) {
	if next == "" || p.asJSON() {
		return
	}
	var times string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if at, isTime := flag.Value.(*timeFlag); isTime && at.isRelative {
			times += fmt.Sprintf(" --%s %s", flag.Name, at)
		}
	})
	if times != "" {
		times = " with" + times
	}
	all := ""
	if cmd.Flags().Lookup("all") != nil { // jobs errors has none
		all = " or --all"
		if times != "" {
			all = "," + all
		}
	}
	p.note("more items follow: add --cursor %s%s%s", next, times, all)
}
