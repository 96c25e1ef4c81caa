package dashboard

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mongodb/amboy/management"
)

// drawing is the layout of a graph: a column for each distance, with the jobs that are
// waited for to the left of those that wait.
type drawing struct {
	Width, Height int
	Nodes         []node
	Edges         []arrow
	Truncated     bool
}

// node is a job in a drawing.
type node struct {
	management.GraphJob
	X, Y int
	// Waits are the jobs of the drawing that this job waits for.
	Waits []management.JobRef
}

// arrow leads from a job to one that waits for it.
type arrow struct {
	Path string
	// Holds is true if the first job has not ended, and so blocks the other.
	Holds bool
}

// The measures of a drawing, in units of the SVG.
const (
	nodeWidth, nodeHeight = 240, 62
	nodeGapX, nodeGapY    = 72, 20
	graphMargin           = 12
)

func draw(graph management.Graph) drawing {
	d := drawing{Truncated: graph.Truncated}
	jobs := slices.Clone(graph.Jobs)
	slices.SortStableFunc(jobs, func(a, b management.GraphJob) int { return cmp.Compare(a.Distance, b.Distance) })
	columns := map[int]int{} // the number of jobs of each distance
	for _, job := range jobs {
		columns[job.Distance]++
	}
	tallest := 0
	for _, n := range columns {
		tallest = max(tallest, n)
	}
	d.Height = 2*graphMargin + tallest*(nodeHeight+nodeGapY) - nodeGapY
	at := map[string]int{} // the index of a node by its ID
	column, row := -1, 0
	for i, job := range jobs {
		if i == 0 || job.Distance != jobs[i-1].Distance {
			column, row = column+1, 0
		}
		n := columns[job.Distance]
		free := d.Height - 2*graphMargin - n*(nodeHeight+nodeGapY) + nodeGapY
		d.Nodes = append(d.Nodes, node{
			GraphJob: job,
			X:        graphMargin + column*(nodeWidth+nodeGapX),
			Y:        graphMargin + free/2 + row*(nodeHeight+nodeGapY),
		})
		at[job.ID] = i
		row++
	}
	d.Width = 2*graphMargin + (column+1)*(nodeWidth+nodeGapX) - nodeGapX
	for _, edge := range graph.Edges {
		d.connect(edge, at)
	}
	return d
}

// connect adds the arrow of an edge, if both its ends are in the drawing.
func (d *drawing) connect(edge management.GraphEdge, at map[string]int) {
	waits, found := at[edge.From]
	first, found2 := at[edge.To]
	if !found || !found2 {
		return
	}
	to, from := &d.Nodes[waits], d.Nodes[first]
	to.Waits = append(to.Waits, from.JobRef)
	x1, y1 := from.X+nodeWidth, from.Y+nodeHeight/2
	x2, y2 := to.X-7, to.Y+nodeHeight/2 // leaves room for the head of the arrow
	bend := nodeGapX / 2
	d.Edges = append(d.Edges, arrow{
		Path:  fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x1, y1, x1+bend, y1, x2-bend, y2, x2, y2),
		Holds: from.Holds,
	})
}
