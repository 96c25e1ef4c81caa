package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/filewatch"
	"github.com/mongodb/amboy/queue/driver"
)

// fileConfig is the content of a configuration file: the settings of the flags, which apply
// when the server starts, and settings that also apply when the file is read again.
type fileConfig struct {
	Config
	live
}

// live are the settings that apply while the server runs.
type live struct {
	// Queues are settings of queues. Queues that are not named keep theirs.
	Queues map[string]queueConfig `json:"queues"`
	// PinlaterDequeueOnly refuses new jobs of PinLater's clients.
	PinlaterDequeueOnly bool `json:"pinlater_dequeue_only"`
}

// queueConfig are the settings of a queue.
type queueConfig struct {
	// MaxRunning is how many jobs of the queue run at once, over all processes; 0 for no limit.
	MaxRunning *int `json:"max_running"`
	// Rate limits how fast jobs of the queue start, over all processes. NoRate
	// removes the limit.
	Rate   *amboy.Rate `json:"rate"`
	NoRate bool        `json:"no_rate"`
	// Types replaces the limits of job types. An empty limit removes that of its type, and types
	// that are not named keep theirs.
	Types map[string]amboy.TypeLimit `json:"types"`
}

// changes returns what the settings change, the types in alphabetical order.
func (c queueConfig) changes() (all []driver.ControlChange) {
	own := driver.ControlChange{MaxRunning: c.MaxRunning, Rate: c.Rate, NoRate: c.NoRate}
	if own != (driver.ControlChange{}) {
		all = append(all, own)
	}
	for _, jobType := range slices.Sorted(maps.Keys(c.Types)) {
		all = append(all, driver.ControlChange{Type: &driver.TypeChange{Type: jobType, Limit: c.Types[jobType]}})
	}
	return all
}

// parseConfig parses a configuration file.
func parseConfig(content []byte) (c fileConfig, err error) {
	if err = parseJSON(content, &c); err != nil {
		return c, fmt.Errorf("decoding the configuration: %w", err)
	}
	for name, q := range c.Queues {
		if q.MaxRunning != nil && *q.MaxRunning < 0 {
			return c, fmt.Errorf("max_running of queue %q must not be negative (is %d)", name, *q.MaxRunning)
		}
		changes := q.changes()
		if len(changes) == 0 {
			return c, fmt.Errorf("queue %q must have max_running, rate, no_rate or types", name)
		}
		for _, change := range changes {
			if err = change.Validate(); err != nil {
				return c, fmt.Errorf("queue %q: %w", name, err)
			}
		}
	}
	return c, nil
}

// parseJSON parses the only value of a file, and refuses unknown fields and keys that an object has twice.
func parseJSON(content []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the file must be a single JSON object")
	}
	return checkKeys(json.NewDecoder(bytes.NewReader(content)))
}

// checkKeys returns an error if an object in the next value, which is valid, has a key twice: package json takes the
// last one, and an operator may have changed the other.
func checkKeys(decoder *json.Decoder) error {
	begin, err := decoder.Token()
	if _, isList := begin.(json.Delim); err != nil || !isList {
		return err
	}
	keys := map[json.Token]bool{}
	for err == nil && decoder.More() {
		if begin == json.Delim('{') {
			key, _ := decoder.Token() // its error comes again
			if keys[key] {
				return fmt.Errorf("the key %q must not occur twice", key)
			}
			keys[key] = true
		}
		err = checkKeys(decoder)
	}
	if err == nil {
		_, err = decoder.Token()
	}
	return err
}

// reloading reads the files of the server again when they have changed.
type reloading struct {
	*server
	files []*filewatch.Files
	out   io.Writer
	// content is the configuration that was read last, and applied is how many of the changes of each
	// queue are made. The rest is tried again, without undoing what operators have changed since.
	content []byte
	applied map[string]int
}

// reloadEvery is how often the files are read without a signal.
const reloadEvery = 10 * time.Second

// newReloading reads the files for the first time.
func (s *server) newReloading(ctx context.Context, out io.Writer) (*reloading, error) {
	r := &reloading{server: s, out: out}
	add := func(apply func(contents [][]byte) error, paths ...string) {
		r.files = append(r.files, &filewatch.Files{Paths: paths, Apply: apply})
	}
	add(func(contents [][]byte) error { return s.access.setToken(contents[0]) }, s.TokenFile)
	if s.Tokens != "" {
		add(func(contents [][]byte) error { return s.access.setOthers(contents[0]) }, s.Tokens)
	}
	if s.TLSCert != "" {
		add(func(contents [][]byte) error {
			pair, err := tls.X509KeyPair(contents[0], contents[1])
			if err == nil {
				s.certificate.Store(&pair)
			}
			return err
		}, s.TLSCert, s.TLSKey)
	}
	if s.File != "" {
		add(func(contents [][]byte) error { return r.apply(ctx, contents[0]) }, s.File)
	}
	for _, f := range r.files {
		if err := f.Load(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// run reads the files after each signal, and at intervals, until ctx ends.
func (r *reloading) run(ctx context.Context, hangUp <-chan os.Signal) {
	ticker := time.NewTicker(reloadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangUp:
		case <-ticker.C:
		}
		for _, f := range r.files {
			changed, err := f.Check()
			switch names := strings.Join(f.Paths, " and "); {
			case err != nil:
				r.say("Could not reload; what is wrong stays as it was: %s", err)
			case changed:
				r.say("Reloaded %s", names)
			}
		}
	}
}

// say prints a message. Where messages go may be closed by now.
func (r *reloading) say(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format+"\n", args...) }

// applyTime bounds the calls of the store for a configuration.
const applyTime = 30 * time.Second

// apply puts the settings of a configuration file in force that apply while the server runs.
func (r *reloading) apply(ctx context.Context, content []byte) error {
	c, err := parseConfig(content)
	if err != nil {
		return err
	}
	if r.applied == nil || !bytes.Equal(content, r.content) {
		r.content, r.applied = content, map[string]int{}
		if r.pinlater != nil {
			r.pinlater.SetDequeueOnly(c.PinlaterDequeueOnly)
		}
		if !reflect.DeepEqual(c.Config, r.fromFile) {
			r.say("Settings besides queues and pinlater_dequeue_only have changed in %s; they apply after a restart", r.File)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		errs = append(errs, r.applyTo(ctx, name, c.Queues[name].changes()))
	}
	return errors.Join(errs...)
}

// applyTo makes those changes of the settings of a queue that are not made yet.
func (r *reloading) applyTo(ctx context.Context, name string, changes []driver.ControlChange) error {
	for _, change := range changes[r.applied[name]:] {
		if _, err := r.store.Control(ctx, name, change); err != nil {
			return fmt.Errorf("changing the settings of queue %q: %w", name, err)
		}
		r.applied[name]++
	}
	return nil
}
