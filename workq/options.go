package workq

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy/outside"
)

// The limits of the protocol.
const (
	// MaxName is the maximum length of a name.
	MaxName = 255
	// MaxBlock is the maximum size of a payload and of a result.
	MaxBlock = 1 << 20
	// MaxTTR is the longest time to run, and the longest wait.
	MaxTTR = 24 * time.Hour
	// MaxTTL is the longest time to live.
	MaxTTL = 30 * 24 * time.Hour
	// MaxAttempts is the number of attempts of a job without a maximum of its own, and
	// the largest number of attempts and of fails that a job can ask for.
	MaxAttempts = 255
	// MaxLine is the maximum length of a line, without its end.
	MaxLine = 10_000
	// MaxLeaseNames is the maximum number of names of a lease.
	MaxLeaseNames = 100
	// MaxAhead is how far in the future a job can be scheduled.
	MaxAhead = 100 * 365 * 24 * time.Hour
)

// Options configure a Server. The zero value is valid.
type Options struct {
	// Prefix is put before each name, so that a Server reaches only the queues whose names begin with it. It must
	// end in a character that names do not have, such as a colon: no Server reaches the queues of another prefix
	// then. Servers with different prefixes share no IDs. Default: none.
	Prefix string
	// MaxConnections is the maximum number of connections. Further ones are closed at once.
	// It must not be negative. Default: 16,384.
	MaxConnections int
	// MaxConnectionsPerClient is the maximum number of connections of one IPv4 address, or of
	// one /64 network of IPv6. Further ones are closed at once. It does not limit clients on
	// this machine. It must not be negative. Default: a quarter of MaxConnections.
	MaxConnectionsPerClient int
	// MaxBuffered is the maximum number of bytes of payloads, results and answers of more
	// than 16 KiB that are being read or written at the same time. Others wait. It must be
	// at least 4 MiB, or 0. Default: 256 MiB.
	MaxBuffered int
	// MaxNames is the maximum number of names that are listed although only leases ever
	// named them. It must not be negative. Default: 10,000.
	MaxNames int
	// IdleTimeout is how long a connection may send nothing between two commands. It must
	// not be negative. Default: one hour.
	IdleTimeout time.Duration
	// ReadTimeout is how long a client may take to send a command, from its first byte. It
	// must not be negative. Default: one minute.
	ReadTimeout time.Duration
	// WriteTimeout is how long a client may take to read an answer. It must not be negative.
	// Default: one minute.
	WriteTimeout time.Duration
	// RetryFails gives -max-fails the meaning that workq documents: with -max-fails=n a fail puts
	// the job back, in its old place, until the job has failed n times. That, or a fail of its last
	// attempt, ends it, with the result of that fail. By default every fail ends the job, as with
	// workq itself.
	RetryFails bool
	// AllowRemote lets Serve accept clients of other machines. The protocol has no login and
	// no encryption: any client that can connect can do anything with the queues. By default Serve
	// refuses a listener on an address that is not a loopback address.
	AllowRemote bool
}

const minBuffered = 4 * MaxBlock

// maxPrefix is the maximum length of a prefix: the name of a queue begins with it.
const maxPrefix = outside.MaxNameBytes - MaxName

// Validate sets the defaults. It returns an error that names every field that is out of
// range.
func (o *Options) Validate() error {
	var errs []error
	refuse := func(field string, value any, rule string) {
		errs = append(errs, fmt.Errorf("invalid workq options: %s must %s (is %v)", field, rule, value))
	}
	for _, number := range []struct {
		field    string
		value    *int
		fallback int
	}{{"MaxConnections", &o.MaxConnections, 16_384}, {"MaxNames", &o.MaxNames, 10_000}, {"MaxBuffered", &o.MaxBuffered, 256 << 20}} {
		if *number.value < 0 {
			refuse(number.field, *number.value, "not be negative")
		} else if *number.value == 0 {
			*number.value = number.fallback
		}
	}
	if o.MaxConnectionsPerClient < 0 {
		refuse("MaxConnectionsPerClient", o.MaxConnectionsPerClient, "not be negative")
	} else if o.MaxConnectionsPerClient == 0 {
		o.MaxConnectionsPerClient = max(1, o.MaxConnections/4)
	}
	if o.MaxBuffered > 0 && o.MaxBuffered < minBuffered {
		refuse("MaxBuffered", o.MaxBuffered, fmt.Sprintf("be at least %d", minBuffered))
	}
	for _, limit := range []struct {
		field    string
		value    *time.Duration
		fallback time.Duration
	}{{"IdleTimeout", &o.IdleTimeout, time.Hour}, {"ReadTimeout", &o.ReadTimeout, time.Minute}, {"WriteTimeout", &o.WriteTimeout, time.Minute}} {
		if *limit.value < 0 {
			refuse(limit.field, *limit.value, "not be negative")
		} else if *limit.value == 0 {
			*limit.value = limit.fallback
		}
	}
	switch last := len(o.Prefix) - 1; {
	case last < 0:
	case isNameByte[o.Prefix[last]]:
		refuse("Prefix", fmt.Sprintf("%q", o.Prefix), "end in a character that names do not have, such as a colon")
	case last >= maxPrefix, !utf8.ValidString(o.Prefix), strings.Contains(o.Prefix, "\x00"):
		refuse("Prefix", fmt.Sprintf("%.100q", o.Prefix), fmt.Sprintf("be UTF-8 without zero bytes, at most %d bytes long", maxPrefix))
	}
	return errors.Join(errs...)
}
