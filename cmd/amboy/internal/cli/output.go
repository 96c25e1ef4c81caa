package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/mongodb/amboy/internal/printable"
)

// choice is the value of a flag that is one of a few.
type choice struct {
	value   string
	allowed []string
}

// String returns the value.
func (c *choice) String() string { return c.value }

// Type is what the help calls the value.
func (c *choice) Type() string { return strings.Join(c.allowed, "|") }

// Set sets the value.
func (c *choice) Set(value string) error {
	if !slices.Contains(c.allowed, value) {
		return fmt.Errorf("must be one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = value
	return nil
}

func (p *program) asJSON() bool { return p.output.value == "json" }

// print writes the answer of a command: as one JSON document, or for people.
func (p *program) print(document any, forPeople func(*page)) error {
	if p.asJSON() {
		return p.printJSON(document, "  ")
	}
	return p.printPage(forPeople)
}

// printNext writes one of the answers of a command that goes on: a line of JSON, or a
// page for people.
func (p *program) printNext(document any, forPeople func(*page)) error {
	if p.asJSON() {
		return p.printJSON(document, "")
	}
	return p.printPage(forPeople)
}

func (p *program) printJSON(document any, indent string) error {
	encoded, err := encode(document, indent)
	if err != nil {
		return err
	}
	return p.write(encoded)
}

func (p *program) printPage(forPeople func(*page)) error {
	out := &page{width: p.Width}
	forPeople(out)
	out.endTable()
	return p.write(out.text.String())
}

func (p *program) write(text string) error {
	if _, err := fmt.Fprint(p.Stdout, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// encode returns JSON that is safe to be shown, with a line break after it.
func encode(document any, indent string) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(document); err != nil {
		return "", fmt.Errorf("encoding the output: %w", err)
	}
	return printable.JSON(b.String()), nil
}

// page is text for people. All that is written to it is made safe to be shown, and cut
// to the width.
type page struct {
	width int
	text  strings.Builder
	// rows are those of the table that is being written; nil between tables.
	rows *tabwriter.Writer
	grid bytes.Buffer
}

// line writes a line.
func (p *page) line(text string) {
	p.endTable()
	p.text.WriteString(strings.TrimRight(cut(printable.Text(text), p.width), " ") + "\n")
}

// lines writes a text of several lines, none of them cut.
func (p *page) lines(indent, text string) {
	p.endTable()
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
		p.text.WriteString(strings.TrimRight(indent+printable.Text(line), " ") + "\n")
	}
}

// row writes a row of a table, whose columns are as wide as its cells.
func (p *page) row(cells ...string) {
	if p.rows == nil {
		p.grid.Reset()
		p.rows = tabwriter.NewWriter(&p.grid, 0, 0, 2, ' ', 0)
	}
	for i, cell := range cells {
		cells[i] = printable.Text(cell)
	}
	fmt.Fprintln(p.rows, strings.Join(cells, "\t")) //nolint:errcheck // A buffer takes all.
}

func (p *page) endTable() {
	if p.rows == nil {
		return
	}
	p.rows.Flush() //nolint:errcheck // A buffer takes all.
	p.rows = nil
	for line := range strings.Lines(p.grid.String()) {
		p.text.WriteString(strings.TrimRight(cut(strings.TrimRight(line, " \n"), p.width), " ") + "\n")
	}
}

// orEmpty makes a list an empty one that else would be null in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
