package browsertest

import (
	"context"
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// pictures is the folder for screenshots of all pages; empty for none.
var pictures = flag.String("pictures", "", "write a screenshot of each page to this folder")

// pages lists the pages of the dashboard, with names for their screenshots.
var pages = []struct{ name, path string }{
	{"overview", ""},
	{"overview-6h", "?last=6h"},
	{"jobs", "jobs"},
	{"jobs-failed", "jobs?state=failed"},
	{"jobs-none", "jobs?type=nobody"},
	{"errors", "errors"},
	{"queues", "queues"},
	{"queue", "queues/acme"},
	{"job-failed", "queues/acme/jobs/invoice-3"},
	{"job-blocked", "queues/acme/jobs/order?distance=2"},
	{"job-running", "queues/globex/jobs/bill-0"},
	{"job-hostile", "queues/acme/jobs/" + hostileID},
	{"job-edit", "queues/acme/jobs/" + hostileID + "/edit"},
	{"job-create", "queues/acme/create?like=" + hostileID},
	{"jobs-hostile", "jobs?tag=" + url.QueryEscape(hostileText)},
	{"workers", "workers"},
	{"schedules", "schedules"},
	{"schedule", "queues/globex/schedules/weekly-bills"},
	{"schedule-new", "schedules/new?queue=globex"},
	{"diagnosis", "diagnosis"},
	{"scopes", "scopes"},
	{"audit", "audit"},
	{"not-found", "queues/nobody"},
}

// look is a screen with a name for its screenshots.
type look struct {
	name string
	screen
}

// looks are the screens on which the pages are checked.
var looks = []look{
	{"desktop-light", desktop},
	{"tablet-light", tablet},
	{"phone-light", phone},
	{"phone-dark", phone.dark()},
	{"tablet-dark", tablet.dark()},
	{"desktop-dark", desktop.dark()},
}

// hostileID is the longest ID, without a place to break it, and hostileText has text from right to
// left, control characters and an override of the direction.
var (
	hostileID   = strings.Repeat("0123456789abcdef", amboy.MaxIDLength/16)
	hostileText = "\u202egpj.\u05e9\u05dc\u05d5\u05dd\u0645\u0631\u062d\u0628\u0627\x1b[31m\a" + strings.Repeat("long", 100)
)

func TestPagesAreAccessible(t *testing.T) {
	axe := readAxe(t)
	s := newBusyService(t)
	s.putHostile("acme")
	b := newTab(t, looks[0].screen)
	inspect := func(page string) {
		t.Helper()
		b.openDetails()
		b.run(chromedp.Evaluate[chromedp.Void](axe))
		for _, look := range looks { // The page is not loaded again, which takes longer than to check it.
			b.use(look.screen)
			for _, v := range b.violations() {
				assert.Fail(t, "axe found a violation on "+page+" on "+look.name, "%s", v)
			}
			overflow := evaluate[int64](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`)
			assert.LessOrEqual(t, overflow, int64(0), "%s must not scroll sideways on %s", page, look.name)
			b.takePicture(page + "-" + look.name)
		}
	}
	for _, p := range pages {
		b.open(s.url + p.path)
		inspect(p.name)
	}
	// Two more pages answer forms.
	b.open(s.url + "jobs?state=failed")
	mouse{}.follow(b, "Preview for all 5")
	b.shows("would change 5 jobs")
	inspect("preview")
	b.open(s.url + "queues/acme/jobs/invoice-3")
	mouse{}.follow(b, "Delete")
	b.isOn("Delete a job?")
	inspect("delete")
}

// openDetails opens all details, so that they are checked too.
func (b tab) openDetails() {
	b.t.Helper()
	b.run(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach(d => { d.open = true })`))
}

// takePicture writes a screenshot of the whole page if -pictures is set.
func (b tab) takePicture(name string) {
	b.t.Helper()
	if *pictures == "" {
		return
	}
	require.NoError(b.t, os.MkdirAll(*pictures, 0o755))
	taken, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(*pictures, name+".png"), taken, 0o644)) //nolint:gosec // not secret
}

// Without scripts an operator can read all pages, and retry a job.
func TestDashboardWorksWithoutScripts(t *testing.T) {
	withEach(t, func(t *testing.T, h hands) {
		s := newService(t)
		s.failInvoices("acme", 1)
		printers.Load().works.Store(true)
		b := newTab(t, phone)
		b.refuseScripts()
		b.open(s.url + "queues/acme/jobs/invoice-0")
		b.shows(errJam.Error())
		h.follow(b, "Retry")
		b.until(`!document.body.innerText.includes("failed")`)
		printers.Load().paper <- struct{}{}
		require.True(t, amboy.Wait(t.Context(), s.queue("acme")))
		b.open(s.url + "queues/acme/jobs/invoice-0")
		b.shows("succeeded")
	})
}

// refuseScripts disables scripts in the tab.
func (b tab) refuseScripts() {
	b.t.Helper()
	b.run(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
}
