package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// backing is the command that copies a database file.
type backing struct {
	*program
	allowNetwork bool
}

func (p *program) backup() *cobra.Command {
	b := &backing{program: p}
	cmd := &cobra.Command{
		Use:   "backup FILE COPY",
		Short: "Copy the database file of queues while services use it",
		Long: "Copy the database file of queues while services use it. The copy has everything that was\n" +
			"written before the command began, and is complete when the command has ended. A COPY\n" +
			"that exists is refused. To restore it, stop all services that use FILE, remove FILE and\n" +
			"its -wal and -shm, and put the copy in its place.",
		Args: exactly(2),
		RunE: p.run(b.do),
	}
	cmd.Flags().BoolVar(&b.allowNetwork, "allow-network-file-system", false, "copy also from a network file system; only while no other machine uses FILE")
	return cmd
}

// backedUp is the result as programs are told of it.
type backedUp struct {
	File string `json:"file"`
	Copy string `json:"copy"`
}

func (b *backing) do(ctx context.Context, args []string) error {
	r := backedUp{File: args[0], Copy: args[1]}
	err := sqlite.Backup(ctx, sqlite.Options{Path: r.File, AllowNetworkFileSystem: b.allowNetwork}, r.Copy)
	if err != nil {
		return err
	}
	return b.print(r, func(out *page) { out.line("Copied " + r.File + " to " + r.Copy + ".") })
}
