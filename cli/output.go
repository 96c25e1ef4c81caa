package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/mongodb/amboy/internal/printable"
)

func writeLine(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, format+"\n", args...)
	return err
}

// writeTable writes rows in aligned columns. An empty cell is a dash.
func writeTable(w io.Writer, rows [][]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = cmp.Or(printable.Text(cell), "-")
		}
		if err := writeLine(table, "%s", strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}
