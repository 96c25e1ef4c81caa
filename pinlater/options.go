package pinlater

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
)

// DefaultAddress is the address that PinLater's clients expect a server on the same machine
// at.
const DefaultAddress = "127.0.0.1:9010"

// Options configure a Server. The zero value is valid.
type Options struct {
	// AllowRemote allows listeners that other machines can reach. The protocol has no login:
	// any client that reaches the server may call everything.
	AllowRemote bool

	// MaxConnections is the maximum number of open connections. Further ones are closed at
	// once. Default: 1,000.
	MaxConnections int
	// MaxConnectionsPerClient is the maximum number of connections of one IPv4 address, or of
	// one /64 network of IPv6. Further ones are closed at once. It does not limit clients on
	// this machine. Default: a quarter of MaxConnections.
	MaxConnectionsPerClient int
	// MaxFrame is the maximum size of a request and of a reply, in bytes. A larger request
	// closes its connection. From 1 KiB to 1 GiB. Default: 64 MiB.
	MaxFrame int
	// MaxBuffered is the maximum size of all requests and replies that are held at the same
	// time, in bytes; those of at most 64 KiB do not count. Others wait for their turn. It
	// must not be smaller than MaxFrame. Default: four times MaxFrame.
	MaxBuffered int
	// MaxBody is the maximum size of the body of a job, in bytes. A job with a larger one, or with
	// one that a reply of MaxFrame has no room for, is refused with error 430; if another protocol
	// or server has put it, it fails when it would be dequeued. Default: job.MaxPayloadBytes.
	MaxBody int

	// IdleTimeout is how long a connection may stay without a request. Default: 5 minutes.
	IdleTimeout time.Duration
	// ReadTimeout is how long a request may take to arrive once it has begun. Default: 30
	// seconds.
	ReadTimeout time.Duration
	// WriteTimeout is how long a client may take to receive a reply. Default: 30 seconds.
	WriteTimeout time.Duration
	// CallTimeout is how long a call may take in the store. Default: 1 minute.
	CallTimeout time.Duration

	// JobType is the name of the type of the jobs. A server reaches no others. Default:
	// "pinlater".
	JobType string
	// QueuePrefix is put before the names of queues, for instance to keep the queues of
	// tenants apart. It must end in a character that names of queues do not have, such as a
	// period. Default: none.
	QueuePrefix string
	// PriorityLevels is the number of priorities, from 1 to 127. Default: 3.
	PriorityLevels int
	// ClaimTimeout is how long a job may be claimed without a checkpoint before its attempt
	// has failed, from outside.MinLease to outside.MaxLease. Default: 10 minutes.
	ClaimTimeout time.Duration
	// KeepSucceeded and KeepFailed are how long jobs are kept after their end. They apply to
	// jobs that are put from then on. Defaults: 24 hours and 7 days.
	KeepSucceeded, KeepFailed time.Duration
	// DequeueOnly refuses new jobs with error 430. See Server.SetDequeueOnly. A single queue
	// refuses them while it is drained (see management.Manager).
	DequeueOnly bool
	// AdminPasswordHash allows deleteQueue with a password: the hexadecimal digits of
	// PasswordHash. If it is empty, deleteQueue is refused.
	AdminPasswordHash string

	// QueueConfigFile is a JSON file with the rate limits of queues. It is read by New, and
	// again when it has changed. Default: none, and no limits.
	QueueConfigFile string
	// ServerSetFile is a file that lists the servers that share the rate limits, as host:port,
	// one a line. It is read by New, and again when it has changed. Default: none, and the
	// limits apply to each server.
	ServerSetFile string
	// ReloadInterval is how often the files are read, in case they have changed. Default: 10
	// seconds.
	ReloadInterval time.Duration
	// MonitorInterval is how often a Server finds the claims of other servers, in order to
	// end them if they time out. Default: 2 minutes, or a quarter of ClaimTimeout if that is
	// shorter.
	MonitorInterval time.Duration
}

const (
	defaultConnections = 1000
	defaultFrame       = 64 << 20
	minFrame, maxFrame = 1 << 10, 1 << 30
	maxPriorityLevels  = 127
	defaultMonitor     = 2 * time.Minute
)

// Validate sets the defaults. It returns an error that names every field that is out of
// range.
func (o *Options) Validate() error {
	var errs []error
	invalid := func(field string, value any, rule string) {
		errs = append(errs, fmt.Errorf("invalid PinLater options: %s %s (is %v)", field, rule, value))
	}
	for _, n := range []struct {
		field    string
		value    *int
		fallback int
	}{
		{"MaxConnections", &o.MaxConnections, defaultConnections},
		{"MaxFrame", &o.MaxFrame, defaultFrame},
		{"MaxBody", &o.MaxBody, job.MaxPayloadBytes},
		{"PriorityLevels", &o.PriorityLevels, 3},
	} {
		setDefault(n.value, n.fallback)
		if *n.value < 1 {
			invalid(n.field, *n.value, "must not be negative")
		}
	}
	if o.MaxConnectionsPerClient < 0 {
		invalid("MaxConnectionsPerClient", o.MaxConnectionsPerClient, "must not be negative")
	}
	setDefault(&o.MaxConnectionsPerClient, max(1, o.MaxConnections/4))
	setDefault(&o.MaxBuffered, 4*o.MaxFrame)
	for _, d := range []struct {
		field    string
		value    *time.Duration
		fallback time.Duration
	}{
		{"IdleTimeout", &o.IdleTimeout, 5 * time.Minute},
		{"ReadTimeout", &o.ReadTimeout, 30 * time.Second},
		{"WriteTimeout", &o.WriteTimeout, 30 * time.Second},
		{"CallTimeout", &o.CallTimeout, time.Minute},
		{"ClaimTimeout", &o.ClaimTimeout, 10 * time.Minute},
		{"KeepSucceeded", &o.KeepSucceeded, 24 * time.Hour},
		{"KeepFailed", &o.KeepFailed, 7 * 24 * time.Hour},
		{"ReloadInterval", &o.ReloadInterval, 10 * time.Second},
	} {
		setDefault(d.value, d.fallback)
		if *d.value < 0 {
			invalid(d.field, *d.value, "must not be negative")
		}
	}
	if o.MonitorInterval < 0 {
		invalid("MonitorInterval", o.MonitorInterval, "must not be negative")
	}
	setDefault(&o.MonitorInterval, max(time.Second, min(defaultMonitor, o.ClaimTimeout/4)))
	setDefault(&o.JobType, "pinlater")
	if o.MaxFrame < minFrame || o.MaxFrame > maxFrame {
		invalid("MaxFrame", o.MaxFrame, fmt.Sprintf("must be from %d to %d", minFrame, maxFrame))
	}
	if o.MaxBuffered < o.MaxFrame {
		invalid("MaxBuffered", o.MaxBuffered, "must not be smaller than MaxFrame")
	}
	if o.PriorityLevels > maxPriorityLevels {
		invalid("PriorityLevels", o.PriorityLevels, fmt.Sprintf("must be at most %d", maxPriorityLevels))
	}
	if o.ClaimTimeout < outside.MinLease || o.ClaimTimeout > outside.MaxLease {
		invalid("ClaimTimeout", o.ClaimTimeout, fmt.Sprintf("must be from %s to %s", outside.MinLease, outside.MaxLease))
	}
	if hash, err := hex.DecodeString(o.AdminPasswordHash); err != nil || len(hash) != 0 && len(hash) != hashSize {
		invalid("AdminPasswordHash", fmt.Sprintf("%d characters long", len(o.AdminPasswordHash)), fmt.Sprintf("must be %d hexadecimal digits", 2*hashSize))
	}
	if len(o.QueuePrefix) > outside.MaxNameBytes-maxQueueName {
		invalid("QueuePrefix", o.QueuePrefix, fmt.Sprintf("must be at most %d bytes long", outside.MaxNameBytes-maxQueueName))
	}
	if o.QueuePrefix != "" && validQueueName.MatchString(o.QueuePrefix[len(o.QueuePrefix)-1:]) {
		invalid("QueuePrefix", o.QueuePrefix, "must not end in a letter, a digit or an underscore")
	}
	return errors.Join(errs...)
}

// setDefault sets a field that is not set.
func setDefault[T comparable](field *T, fallback T) {
	var unset T
	if *field == unset {
		*field = fallback
	}
}
