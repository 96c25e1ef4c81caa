// Command amboy inspects and controls the jobs of a service that serves rest.Handler. Its
// manual is docs/reference/command-line.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/vbauerster/mpb/v8/cwriter"

	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return cli.Run(ctx, cli.Env{
		Stdin:       os.Stdin,
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		Getenv:      os.Getenv,
		Build:       debug.ReadBuildInfo,
		Interactive: cwriter.New(os.Stdin).IsTerminal(),
		Width:       width(),
		Connect:     cli.Dial,
	}, os.Args[1:])
}

// width returns the width of the terminal of the output; 0 if it is not a terminal.
func width() int {
	columns, _, err := cwriter.New(os.Stdout).GetTermSize()
	if err != nil || columns < 0 {
		return 0
	}
	return columns
}
