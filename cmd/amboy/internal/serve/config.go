package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mongodb/amboy/internal/filewatch"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// The defaults of a Config.
const (
	DefaultListen   = "127.0.0.1:8080"
	DefaultDatabase = "amboy"
	// DefaultClientTime is the default of Config.ClientTime.
	DefaultClientTime = 2 * time.Minute
)

// Config configures the server. Its JSON is that of the configuration file.
type Config struct {
	// File is a configuration file; empty for none. Settings beside it come first.
	File string `json:"-"`
	// Store is where the jobs are: "memory", "sqlite:" with a file, or the URL of a database,
	// mongodb://… or postgres://…. Default: the file jobs.db in the folder amboy of the
	// user's configuration.
	Store string `json:"store"`
	// Database is the name of the MongoDB database or the schema of a PostgreSQL. Default:
	// DefaultDatabase.
	Database string `json:"database"`
	// PollOnly is postgres.Options.PollOnly. Default: false.
	PollOnly *bool `json:"poll_only"`
	// Listen is the address of the HTTP server. Port 0 means a free port. Default:
	// DefaultListen.
	Listen string `json:"listen"`
	// TLSCert and TLSKey are files with the certificate chain and the key of the HTTP server,
	// in PEM, which are read again when they change; empty for no TLS.
	TLSCert string `json:"tls_cert"`
	TLSKey  string `json:"tls_key"`
	// TokenFile contains the token of the API, and is read again when it changes. If it does
	// not exist, it is made with a new token. Default: the file token in the folder amboy of
	// the user's configuration.
	TokenFile string `json:"token_file"`
	// Tokens is a JSON file with other tokens, by their names, that grant less. It is read again
	// when it changes; empty for none.
	Tokens string `json:"tokens"`
	// Workq is the address of the server for clients of workq; empty for none.
	Workq string `json:"workq"`
	// WorkqRemote allows a Workq that other machines can reach. Their clients need no token.
	// Default: false, as for PinlaterRemote and WorkqRetryFails.
	WorkqRemote *bool `json:"workq_remote"`
	// WorkqRetryFails is workq.Options.RetryFails.
	WorkqRetryFails *bool `json:"workq_retry_fails"`
	// Pinlater is the address of the server for clients of PinLater; empty for none.
	Pinlater string `json:"pinlater"`
	// PinlaterRemote allows a Pinlater that other machines can reach. Their clients need no
	// token.
	PinlaterRemote *bool `json:"pinlater_remote"`
	// ClientTime is how long a client of the HTTP server may take to send a request, and to
	// receive the answer, besides the time that the request waits for a job. Slower ones are
	// dropped. Default: DefaultClientTime.
	ClientTime time.Duration `json:"-"`
	// PinlaterQueues is a file with the rate limits of PinLater's queues, which is read again
	// when it changes; empty for none.
	PinlaterQueues string `json:"pinlater_queues"`
	// PinlaterServers is a file that lists the servers which share these limits, as host:port, one a line. It
	// is read again when it changes. Empty: the limits apply to each server.
	PinlaterServers string `json:"pinlater_servers"`
	// PinlaterAdminPasswordHash is pinlater.Options.AdminPasswordHash.
	PinlaterAdminPasswordHash string `json:"pinlater_admin_password_hash"`
	// PinlaterClaimTimeout, PinlaterKeepSucceeded, PinlaterKeepFailed and PinlaterPriorityLevels are those of
	// pinlater.Options.
	PinlaterClaimTimeout   Duration `json:"pinlater_claim_timeout"`
	PinlaterKeepSucceeded  Duration `json:"pinlater_keep_succeeded"`
	PinlaterKeepFailed     Duration `json:"pinlater_keep_failed"`
	PinlaterPriorityLevels int      `json:"pinlater_priority_levels"`
}

// Duration is a time.Duration that is a text in JSON, such as "10m".
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// readFile returns the settings of the configuration file.
func (c *Config) readFile() (Config, error) {
	if c.File == "" {
		return Config{}, nil
	}
	var read Config
	file := filewatch.Files{Paths: []string{c.File}, Apply: func(contents [][]byte) error {
		parsed, err := parseConfig(contents[0])
		read = parsed.Config
		return err
	}}
	return read, file.Load()
}

// fill sets the settings that are not set to others.
func (c *Config) fill(from Config) {
	for _, text := range []struct {
		to   *string
		from string
	}{
		{&c.Store, from.Store},
		{&c.Database, from.Database},
		{&c.Listen, from.Listen},
		{&c.TokenFile, from.TokenFile},
		{&c.Tokens, from.Tokens},
		{&c.TLSCert, from.TLSCert},
		{&c.TLSKey, from.TLSKey},
		{&c.Workq, from.Workq},
		{&c.Pinlater, from.Pinlater},
		{&c.PinlaterQueues, from.PinlaterQueues},
		{&c.PinlaterServers, from.PinlaterServers},
		{&c.PinlaterAdminPasswordHash, from.PinlaterAdminPasswordHash},
	} {
		*text.to = cmp.Or(*text.to, text.from)
	}
	for _, duration := range []struct {
		to   *Duration
		from Duration
	}{
		{&c.PinlaterClaimTimeout, from.PinlaterClaimTimeout},
		{&c.PinlaterKeepSucceeded, from.PinlaterKeepSucceeded},
		{&c.PinlaterKeepFailed, from.PinlaterKeepFailed},
	} {
		*duration.to = cmp.Or(*duration.to, duration.from)
	}
	c.PinlaterPriorityLevels = cmp.Or(c.PinlaterPriorityLevels, from.PinlaterPriorityLevels)
	c.PollOnly = cmp.Or(c.PollOnly, from.PollOnly)
	c.WorkqRemote = cmp.Or(c.WorkqRemote, from.WorkqRemote)
	c.WorkqRetryFails = cmp.Or(c.WorkqRetryFails, from.WorkqRetryFails)
	c.PinlaterRemote = cmp.Or(c.PinlaterRemote, from.PinlaterRemote)
}

// isSet reports whether a setting is there and true.
func isSet(setting *bool) bool { return setting != nil && *setting }

// setDefaults sets the defaults, and returns an error for values that are not valid.
func (c *Config) setDefaults() error {
	c.Listen, c.Database = cmp.Or(c.Listen, DefaultListen), cmp.Or(c.Database, DefaultDatabase)
	c.ClientTime = cmp.Or(c.ClientTime, DefaultClientTime)
	if c.Store == "" || c.TokenFile == "" {
		config, err := os.UserConfigDir()
		if err != nil {
			return fmt.Errorf("set --store and --token-file, because there is no folder for them: %w", err)
		}
		c.Store = cmp.Or(c.Store, "sqlite:"+filepath.Join(config, "amboy", "jobs.db"))
		c.TokenFile = cmp.Or(c.TokenFile, filepath.Join(config, "amboy", "token"))
	}
	errs := []error{checkAddress("--listen", c.Listen)}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key must be set together"))
	}
	if scheme, _, _ := strings.Cut(c.Store, ":"); isSet(c.PollOnly) && scheme != "postgres" && scheme != "postgresql" {
		errs = append(errs, errors.New("--poll-only needs the --store of a PostgreSQL"))
	}
	if c.Workq != "" {
		errs = append(errs, checkAddress("--workq", c.Workq))
	}
	if c.Pinlater != "" {
		errs = append(errs, checkAddress("--pinlater", c.Pinlater))
	}
	return errors.Join(append(errs, c.checkNeeded()...)...)
}

// checkNeeded returns an error for each setting of a server that is not to run.
func (c *Config) checkNeeded() (errs []error) {
	for _, setting := range []struct {
		flag       string
		isSet      bool
		of, server string
	}{
		{"--workq-remote", isSet(c.WorkqRemote), "--workq", c.Workq},
		{"--workq-retry-fails", isSet(c.WorkqRetryFails), "--workq", c.Workq},
		{"--pinlater-remote", isSet(c.PinlaterRemote), "--pinlater", c.Pinlater},
		{"--pinlater-queues", c.PinlaterQueues != "", "--pinlater", c.Pinlater},
		{"--pinlater-servers", c.PinlaterServers != "", "--pinlater", c.Pinlater},
		{"--pinlater-admin-password-hash", c.PinlaterAdminPasswordHash != "", "--pinlater", c.Pinlater},
		{"--pinlater-claim-timeout", c.PinlaterClaimTimeout != 0, "--pinlater", c.Pinlater},
		{"--pinlater-keep-succeeded", c.PinlaterKeepSucceeded != 0, "--pinlater", c.Pinlater},
		{"--pinlater-keep-failed", c.PinlaterKeepFailed != 0, "--pinlater", c.Pinlater},
		{"--pinlater-priority-levels", c.PinlaterPriorityLevels != 0, "--pinlater", c.Pinlater},
	} {
		if setting.isSet && setting.server == "" {
			errs = append(errs, fmt.Errorf("%s needs %s", setting.flag, setting.of))
		}
	}
	return errs
}

func checkAddress(flag, address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%s must be an address with a port, such as 127.0.0.1:8080 (is %q)", flag, address)
	}
	return nil
}

// keepFinished is the maximum number of ended jobs of a queue that are kept in a store of this
// machine. Their retention removes most of them before.
const keepFinished = 10_000_000

// openStore opens the store. name describes it without secrets. It is printed before the server of a database is
// asked, which may not answer for long.
func (c *Config) openStore(ctx context.Context, out io.Writer) (store driver.Driver, name string, err error) {
	connecting := func(to string) error {
		name = to + " " + c.Database
		_, failure := fmt.Fprintln(out, "Connecting to", name)
		return failure
	}
	scheme, rest, _ := strings.Cut(c.Store, ":") // the rest of a URL may contain a password
	switch scheme {
	case "memory":
		store, err = memory.New(memory.Options{KeepFinished: keepFinished})
		name = "memory; they are lost when it stops"
	case "sqlite":
		if err = os.MkdirAll(filepath.Dir(rest), 0o700); err == nil {
			store, err = sqlite.Open(ctx, sqlite.Options{Path: rest, KeepFinished: keepFinished})
		}
		name = rest
	case "mongodb", "mongodb+srv":
		if err = connecting("MongoDB database"); err == nil {
			store, err = mongodb.Open(ctx, mongodb.Options{URI: c.Store, DB: c.Database, Collection: "jobs", Grouped: true})
		}
	case "postgres", "postgresql":
		if err = connecting("PostgreSQL schema"); err == nil {
			store, err = postgres.Open(ctx, postgres.Options{URL: c.Store, Schema: c.Database, PollOnly: isSet(c.PollOnly)})
		}
	default:
		err = fmt.Errorf("--store must be memory, sqlite:FILE, mongodb://… or postgres://… (begins with %q)", scheme)
	}
	if err != nil {
		return nil, "", fmt.Errorf("opening the store: %w", err)
	}
	return store, name, nil
}
