package riverjob

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mongodb/amboy/queue/driver"
)

// Control implements driver.Driver. It pauses and resumes queues, which River's tools see, and refuses
// other settings, because River's tables have no place for them.
func (d *Driver) Control(ctx context.Context, queue string, change driver.ControlChange) (driver.Control, error) {
	err := d.usable(ctx)
	if err == nil {
		err = checkControl(change)
	}
	if err == nil && !slices.Contains(d.opts.Queues, queue) {
		err = fmt.Errorf("Options.Queues must name it (has %q)", d.opts.Queues)
	}
	if err == nil && change.Paused != nil {
		err = d.pause(ctx, queue, *change.Paused)
	}
	var paused bool
	if err == nil {
		err = d.failed(d.pool.QueryRow(ctx, d.sql(`SELECT EXISTS (SELECT 1 FROM {s}.river_queue WHERE name = $1 AND paused_at IS NOT NULL)`), queue).Scan(&paused), false)
	}
	if err != nil {
		return driver.Control{}, fmt.Errorf("settings of queue %q: %w", queue, err)
	}
	return driver.Control{Paused: paused}, nil
}

func checkControl(change driver.ControlChange) error {
	if err := change.Validate(); err != nil {
		return err
	}
	for setting, isSet := range map[string]bool{
		"draining":          change.Draining != nil && *change.Draining,
		"MaxRunning":        change.MaxRunning != nil && *change.MaxRunning > 0,
		"a rate":            change.Rate != nil,
		"a limit of a type": change.Type != nil && !change.Type.Limit.IsZero(),
	} {
		if isSet {
			return fmt.Errorf("only pausing is possible, because River's tables have no place for %s: %w", setting, driver.ErrUnsupported)
		}
	}
	return nil
}

// pause pauses or resumes a queue as River does.
func (d *Driver) pause(ctx context.Context, queue string, paused bool) error {
	action := actionResume
	if paused {
		action = actionPause
	}
	batch := &pgx.Batch{}
	batch.Queue(d.sql(touchQueue), []string{queue})
	batch.Queue(d.sql(`UPDATE {s}.river_queue SET paused_at = CASE WHEN $2 THEN coalesce(paused_at, now()) END, updated_at = now() WHERE name = $1`), queue, paused)
	queueNotify(batch, d.channel(topicControl), control{Action: action, Queue: queue})
	if err := d.pool.SendBatch(ctx, batch).Close(); err != nil {
		return d.failed(err, true)
	}
	d.floors.drop()
	d.subscribers.Notify(driver.In(queue))
	return nil
}

// touchQueue registers queues, or shows that they are being worked: River deletes queues that were not
// touched for a day, and River UI lists only those that are registered.
const touchQueue = `INSERT INTO {s}.river_queue AS q (name, created_at, updated_at) SELECT name, now(), now() FROM unnest($1::text[]) t(name) ORDER BY name
	ON CONFLICT (name) DO UPDATE SET updated_at = now()`

func (d *Driver) touchQueues(ctx context.Context) error {
	_, err := d.pool.Exec(ctx, d.sql(touchQueue), d.opts.Queues)
	return err
}

// queueNotify adds a notification to a batch.
func queueNotify(batch *pgx.Batch, channel string, payload control) {
	encoded, err := json.Marshal(payload)
	if err != nil {
		panic(fmt.Sprintf("riverjob: a notification can't be encoded: %v", err))
	}
	batch.Queue("SELECT pg_notify($1, $2)", channel, string(encoded))
}

// Keep implements driver.Driver. Notes are kept in memory.
func (d *Driver) Keep(ctx context.Context, notes ...driver.Note) error {
	return d.beside.Keep(ctx, notes...)
}

// KeepNew implements driver.Driver.
func (d *Driver) KeepNew(ctx context.Context, note driver.Note, now time.Time) (kept driver.Note, isNew bool, err error) {
	return d.beside.KeepNew(ctx, note, now)
}

// Replace implements driver.Driver.
func (d *Driver) Replace(ctx context.Context, note driver.Note, old []byte) (replaced bool, err error) {
	return d.beside.Replace(ctx, note, old)
}

// Notes implements driver.Driver.
func (d *Driver) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	return d.beside.Notes(ctx, req)
}

// Drop implements driver.Driver.
func (d *Driver) Drop(ctx context.Context, kind string, keys ...string) error {
	return d.beside.Drop(ctx, kind, keys...)
}

// TakeDuty implements driver.Driver. Each process does all duties: they are conditional changes.
func (d *Driver) TakeDuty(ctx context.Context, duty driver.Duty, now time.Time) (bool, error) {
	return d.beside.TakeDuty(ctx, duty, now)
}

// Mark implements driver.Driver. Marks are kept in memory.
func (d *Driver) Mark(ctx context.Context, queue, name string, at time.Time) (time.Time, error) {
	return d.beside.Mark(ctx, queue, name, at)
}

// Prune implements driver.Driver. It drops no queue: River's own maintenance does.
func (d *Driver) Prune(ctx context.Context, req driver.PruneRequest) (int, error) {
	if err := d.usable(ctx); err != nil {
		return 0, err
	}
	return 0, req.Validate()
}
