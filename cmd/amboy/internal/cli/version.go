package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"
)

// build describes how the program was built. Empty fields are unknown.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Revision string `json:"revision"`
	// Time is that of the revision, and Modified is true if files differed from it.
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
}

// unknown stands for what the program was built without.
const unknown = "unknown"

func (p *program) build() build {
	b := build{Version: unknown, Go: unknown, Revision: unknown}
	info, ok := p.Build()
	if !ok {
		return b
	}
	b.Version, b.Go = cmp.Or(info.Main.Version, unknown), cmp.Or(info.GoVersion, unknown)
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Revision = cmp.Or(setting.Value, unknown)
		case "vcs.time":
			b.Time = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

func (p *program) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program, of Go, and the revision",
		Args:  exactly(0),
		RunE: p.run(func(context.Context, []string) error {
			b := p.build()
			return p.print(b, func(out *page) {
				out.row("version", b.Version)
				out.row("go", b.Go)
				revision := b.Revision
				if b.Time != "" {
					revision += ", " + b.Time
				}
				if b.Modified {
					revision += ", modified"
				}
				out.row("revision", revision)
			})
		}),
	}
}
