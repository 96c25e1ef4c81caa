package management

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// defects are the severities and reasons of the defects that a store reports, and what to read.
var defects = map[driver.DefectKind]Finding{
	driver.MissingIndex: {
		Kind: MissingIndex, Severity: Critical, Docs: "docs/guides/diagnose-a-store.md#indexes",
		Why: "Without it, calls read all jobs instead of a few, or the store accepts what it must refuse.",
	},
	driver.LargeLog: {
		Kind: LargeLog, Severity: Warning, Docs: "docs/guides/diagnose-a-store.md#space",
		Why: "The log fills the disk, and reads become slower.",
	},
	driver.Bloat: {
		Kind: Bloat, Severity: Warning, Docs: "docs/guides/diagnose-a-store.md#space",
		Why: "Space on the disk is lost, and reads pass over it.",
	},
	driver.OldTransaction: {
		Kind: OldTransaction, Severity: Warning, Docs: "docs/guides/diagnose-a-store.md#space",
		Why: "Until it ends, the server can't remove dead rows from any table, so that claims become slower and the disk fills.",
	},
}

// checkStore asks the store for its condition. A store that knows nothing about itself has no
// findings.
func (d *diagnosis) checkStore(ctx context.Context) error {
	d.condition.Bounded, d.condition.SharesClock = true, true
	examiner, ok := d.store.Admin().(driver.Examiner)
	if !ok {
		return nil
	}
	condition, err := examiner.Examine(ctx)
	if err != nil {
		return err
	}
	d.condition = condition
	for _, defect := range condition.Defects {
		f := defects[defect.Kind]
		f.Subject.Name, f.Detail, f.Remedy, f.Command = defect.Name, defect.Detail, defect.Remedy, defect.Command
		if defect.Minor {
			f.Severity = Warning
		}
		d.add(f)
	}
	d.checkLeases()
	return nil
}

// checkLeases adds a finding for each queue and owner with expired leases.
func (d *diagnosis) checkLeases() {
	type holder struct{ queue, owner string }
	first := map[holder]driver.ExpiredLease{}
	number := map[holder]int{}
	var holders []holder
	for _, l := range d.condition.Expired {
		if !d.covers(l.Queue) {
			continue
		}
		h := holder{l.Queue, l.Owner}
		if number[h] == 0 {
			first[h] = l
			holders = append(holders, h)
		}
		number[h]++
	}
	for _, h := range holders {
		l := first[h]
		since := "before the machine was last started"
		if !l.Ended.IsZero() {
			since = agoText(d.now.Sub(l.Ended)) + " ago"
		}
		d.add(Finding{
			Kind: ExpiredLease, Severity: Critical,
			Subject: Subject{InQueue: true, Queue: h.queue, JobID: l.JobID, Process: h.owner},
			Detail:  fmt.Sprintf("%s not been renewed by %s; the first, of %s, ran out %s.", plural(number[h], "lease has", "leases have"), h.owner, l.JobID, since),
			Why:     "The process is dead or hangs, and no live process has taken its jobs back: they hold their scopes, and do not end.",
			Remedy:  "Start a process that runs the queue: it takes the jobs back within one and a half times their leases. To let one run at once, abandon its run.",
			Command: command("amboy jobs abandon", h.queue, l.JobID),
			Docs:    "docs/guides/diagnose-a-store.md#leases",
		})
	}
}

// checkClocks compares the clocks of processes with that of the store.
func (d *diagnosis) checkClocks() {
	if d.condition.SharesClock {
		return
	}
	ahead := map[string]time.Duration{}
	for _, p := range d.alive {
		// An old time may be that of an old report.
		if by := p.Seen.Sub(d.reported.Add(d.condition.ClockAhead)); by > 0 {
			ahead[p.ID] = by
		}
	}
	if len(d.store.Queues()) == 0 {
		for owner, by := range d.condition.OwnersAhead {
			ahead[owner] = by
		}
	}
	for process, by := range ahead {
		if by.Abs() > maxSkew {
			d.addSkew(process, fmt.Sprintf("The clock of process %s is %s the clock of the store.", process, aheadText(by)))
		}
	}
	if here := -d.condition.ClockAhead; here.Abs() > maxSkew {
		name, err := os.Hostname()
		if err != nil {
			name = "this machine" // only its name is unknown
		}
		d.addSkew(name, fmt.Sprintf("The clock of %s, which made this diagnosis, is %s the clock of the store.", name, aheadText(here)))
	}
}

func (d *diagnosis) addSkew(process, detail string) {
	d.add(Finding{
		Kind: ClockSkew, Severity: Warning, Subject: Subject{Process: process}, Detail: detail,
		Why:    "Jobs start too early or too late, the ages that are shown are wrong, and a process may look dead. Leases do not depend on it.",
		Remedy: "Synchronize the clocks of the machines (NTP).",
		Docs:   "docs/guides/diagnose-a-store.md#clocks",
	})
}
