package dependency_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mongodb/amboy/dependency"
)

func ExampleNewAlways() {
	// The report job runs after both imports have ended.
	report := dependency.NewAlways()
	for _, id := range []string{"import.users", "import.orders", "import.users"} {
		if err := report.AddEdge(id); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(report.Edges(), report.State())
	// Output:
	// dependency edge "import.users" already exists
	// [import.users import.orders] ready
}

func ExampleJobEdges_SetOnFailure() {
	// The clean-up runs whether or not the import succeeds.
	cleanup := dependency.MakeAlways()
	cleanup.SetOnFailure(dependency.RunOnFailure)
	fmt.Println(cleanup.AddEdge("import.users"), cleanup.OnFailure())
	// Output: <nil> run
}

func ExampleNewCreatesFile() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	thumbnail := filepath.Join(dir, "thumbnail.png")
	manager := dependency.NewCreatesFile(thumbnail)
	fmt.Println(manager.State())
	if err = os.WriteFile(thumbnail, nil, 0o600); err != nil {
		fmt.Println(err)
	}
	fmt.Println(manager.State())
	// Output:
	// ready
	// passed
}

func ExampleNewLocalFile() {
	manager := dependency.NewLocalFile("site/index.html", "no/such/template.html")
	fmt.Println(manager.State())
	fmt.Println(manager.Explain())
	// Output:
	// unresolved
	// can't use the dependency: stat no/such/template.html: no such file or directory
}

func ExampleNewCheckManager() {
	open := false
	dependency.RegisterCheck("maintenance-window", func() dependency.CheckFunc {
		return func([]string) dependency.State {
			if open {
				return dependency.Ready
			}
			return dependency.Blocked
		}
	})

	manager := dependency.NewCheckManager("maintenance-window")
	fmt.Println(manager.State())
	open = true
	fmt.Println(manager.State())
	// Output:
	// blocked
	// ready
}

// afterHour is ready from an hour of the day on.
type afterHour struct {
	Hour                int                 `bson:"hour" json:"hour"`
	T                   dependency.TypeInfo `bson:"type" json:"type"`
	dependency.JobEdges `bson:"edges" json:"edges"`
}

func newAfterHour(hour int) *afterHour {
	return &afterHour{Hour: hour, T: dependency.TypeInfo{Name: "after-hour"}, JobEdges: dependency.NewJobEdges()}
}

func (d *afterHour) Type() dependency.TypeInfo { return d.T }

func (d *afterHour) State() dependency.State {
	if time.Now().Hour() < d.Hour {
		return dependency.Blocked
	}
	return dependency.Ready
}

// Write a manager by hand, and register it, so that it can be stored with its job.
func ExampleRegisterManager() {
	dependency.RegisterManager("after-hour", func() dependency.Manager { return newAfterHour(0) })
	manager := newAfterHour(0)
	fmt.Println(manager.AddEdge("import"), manager.State())
	// Output: <nil> ready
}
