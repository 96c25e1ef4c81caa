package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mongodb/amboy/cmd/amboy/internal/serve"
)

// storeVariable is the variable of the environment that names the store.
const storeVariable = "AMBOY_STORE"

func (p *program) serve() *cobra.Command {
	var config serve.Config
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the jobs of a store to workers in any language",
		Long: "Serve the jobs of a store: the API, the dashboard, and ports for the clients of other systems.\n\n" +
			"Everything needs the token in --token-file, which is made if it does not exist, one of --tokens,\n" +
			"or the link that is printed. The ports of workq and PinLater are exceptions: their protocols have no login.",
		Args: exactly(0),
		RunE: p.run(func(ctx context.Context, _ []string) error {
			if config.Store == "" {
				config.Store = p.Getenv(storeVariable)
			}
			config.TokenFile = p.connection.tokenFile
			return serve.Run(ctx, config, p.Stdout)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&config.File, "config", "", "a JSON file with these settings and others (docs/guides/run-a-server.md); it is read again when it changes, and on SIGHUP")
	flags.StringVar(&config.Store, "store", "", "memory, sqlite:FILE, mongodb://... or postgres://... (or "+storeVariable+", which other users of this machine can't see; default a file of your user)")
	flags.StringVar(&config.Database, "database", "", "the database of a MongoDB, or the schema of a PostgreSQL (default \""+serve.DefaultDatabase+"\")")
	optionalBool(flags, &config.PollOnly, "poll-only", "do not listen for notifications of a PostgreSQL, but poll: for poolers in transaction mode, such as PgBouncer")
	flags.StringVar(&config.Listen, "listen", "", "the address of the HTTP server; port 0 means a free port (default \""+serve.DefaultListen+"\")")
	flags.StringVar(&config.Tokens, "tokens", "", "a JSON file with other tokens, which grant less (docs/guides/run-a-server.md); it is read again when it changes")
	flags.StringVar(&config.TLSCert, "tls-cert", "", "a PEM file with the certificate chain of the HTTP server; it is read again when it changes")
	flags.StringVar(&config.TLSKey, "tls-key", "", "a PEM file with the key of the certificate")
	flags.StringVar(&config.Workq, "workq", "", "the address for clients of workq, for instance 127.0.0.1:9922; without it there is none")
	optionalBool(flags, &config.WorkqRemote, "workq-remote", "allow a --workq that other machines can reach: any client that can connect can do anything with the queues")
	optionalBool(flags, &config.WorkqRetryFails, "workq-retry-fails", "let -max-fails of workq's add and schedule allow retries, as its documentation says; in workq itself it has no effect")
	flags.StringVar(&config.Pinlater, "pinlater", "", "the address for clients of PinLater, for instance 127.0.0.1:9010; without it there is none")
	optionalBool(flags, &config.PinlaterRemote, "pinlater-remote", "allow a --pinlater that other machines can reach: any client that can connect can do anything with its jobs")
	flags.StringVar(&config.PinlaterQueues, "pinlater-queues", "", "a JSON file with the rate limits of PinLater's queues; it is read again when it changes")
	flags.StringVar(&config.PinlaterServers, "pinlater-servers", "", "a file with the servers that share these limits, as host:port, one a line; it is read again when it changes; without it the limits apply to each server")
	flags.StringVar(&config.PinlaterAdminPasswordHash, "pinlater-admin-password-hash", "", "the hash of the password of PinLater's deleteQueue (docs/reference/pinlater.md); without it the call is refused")
	flags.DurationVar((*time.Duration)(&config.PinlaterClaimTimeout), "pinlater-claim-timeout", 0, "how long a client of PinLater may have a job before its attempt has failed (default 10m)")
	flags.DurationVar((*time.Duration)(&config.PinlaterKeepSucceeded), "pinlater-keep-succeeded", 0, "how long PinLater's jobs are kept that have succeeded (default 24h)")
	flags.DurationVar((*time.Duration)(&config.PinlaterKeepFailed), "pinlater-keep-failed", 0, "how long PinLater's jobs are kept that have failed (default 168h)")
	flags.IntVar(&config.PinlaterPriorityLevels, "pinlater-priority-levels", 0, "the number of PinLater's priorities, from 1 to 127 (default 3)")
	return cmd
}

// optionalBool defines a flag that sets nothing unless it is given.
func optionalBool(flags *pflag.FlagSet, to **bool, name, usage string) {
	flags.BoolFunc(name, usage, func(text string) error {
		value, err := strconv.ParseBool(text)
		*to = &value
		return err
	})
}
