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

// choice is a flag with a few allowed values.
type choice struct {
	value   string
	allowed []string
}

// String returns the value.
func (c *choice) String() string { return c.value }

// Type returns the name of the value in the help.
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

// print writes the result of a command: as one JSON document, or as text.
func (p *program) print(document any, asText func(*page)) error {
	if p.asJSON() {
		return p.printJSON(document, "  ")
	}
	return p.printPage(asText)
}

// printNext writes one of several results of a command: as a line of JSON, or as text.
func (p *program) printNext(document any, asText func(*page)) error {
	if p.asJSON() {
		return p.printJSON(document, "")
	}
	return p.printPage(asText)
}

func (p *program) printJSON(document any, indent string) error {
	encoded, err := encode(document, indent)
	if err != nil {
		return err
	}
	return p.write(encoded)
}

func (p *program) printPage(asText func(*page)) error {
	out := &page{width: p.Width}
	asText(out)
	out.endTable()
	return p.write(out.text.String())
}

func (p *program) write(text string) error {
	if _, err := fmt.Fprint(p.Stdout, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// encode returns JSON that is safe to print, followed by a newline.
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

// page is the text of a result. Everything written to it is made safe to print, and cut to
// the width.
type page struct {
	width int
	text  strings.Builder
	// rows is the table that is being written; nil between tables.
	rows *tabwriter.Writer
	grid bytes.Buffer
}

// line writes a line.
func (p *page) line(text string) {
	p.endTable()
	p.text.WriteString(strings.TrimRight(cut(printable.Text(text), p.width), " ") + "\n")
}

// lines writes a text of several lines, without cutting them.
func (p *page) lines(indent, text string) {
	p.endTable()
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
		p.text.WriteString(strings.TrimRight(indent+printable.Text(line), " ") + "\n")
	}
}

// row writes a row of a table. Columns are as wide as their widest cell.
func (p *page) row(cells ...string) {
	if p.rows == nil {
		p.grid.Reset()
		p.rows = tabwriter.NewWriter(&p.grid, 0, 0, 2, ' ', 0)
	}
	for i, cell := range cells {
		cells[i] = printable.Text(cell)
	}
	fmt.Fprintln(p.rows, strings.Join(cells, "\t")) //nolint:errcheck // A buffer never fails.
}

func (p *page) endTable() {
	if p.rows == nil {
		return
	}
	p.rows.Flush() //nolint:errcheck // A buffer never fails.
	p.rows = nil
	for line := range strings.Lines(p.grid.String()) {
		p.text.WriteString(strings.TrimRight(cut(strings.TrimRight(line, " \n"), p.width), " ") + "\n")
	}
}

// orEmpty returns a list that is an empty array in JSON if it is nil.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
