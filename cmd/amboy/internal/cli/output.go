package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

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
	out := &page{width: p.Width, wide: p.output.value == "wide"}
	if out.wide {
		out.width = 0 // nothing is cut
	}
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
	// wide is true if tables have all their columns.
	wide bool
	text strings.Builder
	// rows is the table that is being written; nil between tables. Its first row is the heading
	// if extras or dropped are set.
	rows [][]string
	// extras are the headings of columns that only wide tables have, and dropped those of columns
	// that tables lose in this order while they are too wide for the terminal.
	extras, dropped []string
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

// columns sets which columns of the following table are only for wide ones, and which are dropped
// if the terminal is narrow. The next row is the heading.
func (p *page) columns(extras, dropped []string) {
	p.endTable()
	p.extras, p.dropped = extras, dropped
}

// row writes a row of a table. Columns are as wide as their widest cell.
func (p *page) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = printable.Text(cell)
	}
	p.rows = append(p.rows, cells)
}

func (p *page) endTable() {
	if p.rows == nil {
		return
	}
	rows := p.rows
	if !p.wide {
		for _, heading := range p.extras {
			rows = without(rows, heading)
		}
	}
	for _, heading := range p.dropped {
		if p.wide || p.width == 0 || widthOf(rows) <= p.width {
			break
		}
		rows = without(rows, heading)
	}
	p.rows, p.extras, p.dropped = nil, nil, nil
	for line := range strings.Lines(grid(rows)) {
		p.text.WriteString(strings.TrimRight(cut(strings.TrimRight(line, " \n"), p.width), " ") + "\n")
	}
}

// grid aligns the cells of rows.
func grid(rows [][]string) string {
	var text bytes.Buffer
	aligned := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(aligned, strings.Join(row, "\t")) //nolint:errcheck // A buffer never fails.
	}
	aligned.Flush() //nolint:errcheck // A buffer never fails.
	return text.String()
}

func widthOf(rows [][]string) int {
	widest := 0
	for line := range strings.Lines(grid(rows)) {
		widest = max(widest, utf8.RuneCountInString(strings.TrimRight(line, " \n")))
	}
	return widest
}

// without returns rows without the column of a heading.
func without(rows [][]string, heading string) [][]string {
	at := slices.Index(rows[0], heading)
	if at < 0 {
		return rows
	}
	narrower := make([][]string, len(rows))
	for i, row := range rows {
		narrower[i] = slices.Delete(slices.Clone(row), at, at+1)
	}
	return narrower
}

// orEmpty returns a list that is an empty array in JSON if it is nil.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
