package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
	"github.com/mongodb/amboy/management"
)

// doctoring is the command that names what is wrong with a store.
type doctoring struct {
	*program
	store serve.ReadOptions
}

func (p *program) doctor() *cobra.Command {
	d := &doctoring{program: p}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Name what is wrong with a store, and what to do about it",
		Long: "Name what is wrong with the store of a service, or with --store of a database, and what to\n" +
			"do about it. It changes no job and no setting. The exit code is 0 if nothing is wrong, 1 if\n" +
			"there are findings, and 8 if the store could not be read.",
		Args: exactly(0),
		RunE: p.run(d.do),
	}
	flags := cmd.Flags()
	flags.StringVar(&d.store.Store, "store", "", "read this store instead of calling a service: sqlite:FILE, mongodb://... or postgres://... (or "+storeVariable+" if no URL of a service is set)")
	flags.StringVar(&d.store.Database, "database", "", "the database of a MongoDB, or the schema of a PostgreSQL (default \""+serve.DefaultDatabase+"\")")
	flags.StringVar(&d.store.Collection, "collection", "", "the collection of a MongoDB: with .group at its end it has many queues, and with .jobs a single one (default \""+serve.DefaultCollection+"\")")
	return cmd
}

func (d *doctoring) do(ctx context.Context, _ []string) error {
	diagnosis, err := d.diagnose(ctx)
	if err == nil || len(diagnosis.Findings) > 0 {
		if printed := d.print(diagnosis, func(out *page) { diagnosisText(out, diagnosis) }); printed != nil {
			return printed
		}
	}
	switch {
	case err != nil && exitCode(err) == exitFailure:
		return &exitError{code: exitUnread, err: err}
	case err != nil:
		return err
	case len(diagnosis.Findings) > 0:
		return &exitError{code: exitFailure} // the findings are printed
	default:
		return nil
	}
}

// closeTime bounds closing the store, whose server may be away.
const closeTime = 5 * time.Second

// diagnose asks the service, or reads the store. The timeout applies to either.
func (d *doctoring) diagnose(ctx context.Context) (diagnosis management.Diagnosis, err error) {
	if d.store.Store == "" && d.connection.url == "" && d.Getenv("AMBOY_URL") == "" {
		d.store.Store = d.Getenv(storeVariable)
	}
	if d.store.Store == "" && (d.store.Database != "" || d.store.Collection != "") {
		return diagnosis, usage("--database and --collection need --store")
	}
	var inspector management.Inspector
	if d.store.Store == "" {
		inspector, err = d.connect()
	} else {
		// Drivers log what the findings say as well.
		sender := grip.GetSender()
		before := sender.Level()
		if quiet := sender.SetLevel(send.LevelInfo{Default: level.Critical, Threshold: level.Critical}); quiet != nil {
			return diagnosis, fmt.Errorf("setting the level of the log: %w", quiet)
		}
		defer func() { err = errors.Join(err, sender.SetLevel(before)) }()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.connection.timeout)
		defer cancel()
		var closeStore func(context.Context) error
		inspector, closeStore, err = serve.OpenForReading(ctx, d.store)
		if errors.Is(err, serve.ErrNoStore) {
			return diagnosis, &exitError{code: exitUsage, err: err}
		}
		if err == nil {
			defer func() {
				closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
				defer cancel()
				err = errors.Join(err, closeStore(closing))
			}()
		}
	}
	if err != nil {
		return diagnosis, err
	}
	diagnostician, ok := inspector.(management.Diagnostician)
	if !ok {
		return diagnosis, fmt.Errorf("making a diagnosis: %w", management.ErrUnsupported)
	}
	return diagnostician.Diagnose(ctx)
}

func diagnosisText(out *page, diagnosis management.Diagnosis) {
	for _, f := range diagnosis.Findings {
		out.line(strings.ToUpper(string(f.Severity)) + "  " + string(f.Kind) + subjectText(f.Subject))
		out.lines("  ", oneLine(f.Detail))
		out.lines("  ", f.Why)
		out.lines("  ", "Remedy: "+f.Remedy)
		if f.Command != "" {
			out.lines("    ", f.Command)
		}
		out.lines("  ", "See "+f.Docs+".")
		out.line("")
	}
	queues := strconv.Itoa(diagnosis.Queues)
	if diagnosis.MoreQueues {
		queues = "the first " + queues
	}
	number := "No findings"
	if n := len(diagnosis.Findings); n > 0 {
		number = strconv.Itoa(n) + " " + cmp.Or(map[int]string{1: "finding"}[n], "findings")
	}
	out.line(number + " in the store and " + queues + " of its queues.")
}

// subjectText names what a finding concerns.
func subjectText(s management.Subject) string {
	text := ""
	if s.InQueue {
		text += "  queue " + nameOf(s.Queue)
	}
	for _, part := range []struct{ what, name string }{
		{"job", s.JobID}, {"type", s.Type}, {"schedule", s.Schedule}, {"process", s.Process}, {"", s.Name},
	} {
		if part.name != "" {
			text += "  " + strings.TrimSpace(part.what+" "+part.name)
		}
	}
	return text
}
