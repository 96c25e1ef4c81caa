package cli

import (
	"math"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/management"
)

// pageFlags are the flags of commands that list what may be much.
type pageFlags struct {
	limit  int
	cursor string
	all    bool
}

func addPageFlags(cmd *cobra.Command) *pageFlags {
	p := &pageFlags{}
	cmd.Flags().IntVar(&p.limit, "limit", management.DefaultLimit, "how many to list at most")
	cmd.Flags().StringVar(&p.cursor, "cursor", "", "where the list before has ended")
	cmd.Flags().BoolVar(&p.all, "all", false, "list all")
	cmd.MarkFlagsMutuallyExclusive("limit", "all")
	return p
}

// collect asks for pages until it has as many items as the flags say. It returns them,
// and the cursor for more.
func collect[T any](flags *pageFlags, newest bool, ask func(management.PageRequest) ([]T, string, error)) (items []T, next string, err error) {
	most := flags.limit
	if flags.all {
		most = math.MaxInt
	}
	if most < 1 {
		return nil, "", usage("--limit must be at least 1, and is %d", most)
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

// hintNext tells people how to go on.
func (p *program) hintNext(next string) {
	if next != "" && !p.asJSON() {
		p.note("there are more: add --cursor %s, or --all", next)
	}
}
