package browsertest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// requireVariable is set where the tests must not be skipped.
const requireVariable = "AMBOY_TEST_BROWSER"

// browserNames are those of the programs that the tests can drive.
var browserNames = []string{"chromium", "chromium-browser", "google-chrome"}

// patience is how long something may take that a person waits for.
const patience = 30 * time.Second

// missing skips a test for which something is not installed.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv(requireVariable) != "" {
		require.Fail(t, what+" is not installed, and "+requireVariable+" is set")
	}
	t.Skip(what + " is not installed")
}

func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range browserNames {
		path, err := exec.LookPath(name)
		if err == nil {
			return path
		}
	}
	missing(t, "Chromium")
	return ""
}

// browser is a browser that runs.
type browser struct{ ctx context.Context }

// newBrowser starts a browser, which ends with the test.
func newBrowser(t *testing.T) browser {
	t.Helper()
	ctx, end := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(
		chromedp.ExecPath(findBrowser(t)),
		chromedp.NoSandbox, // as root there is none
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("enable-blink-features", "ComputedAccessibilityInfo"), // what a screen reader is told
	))
	t.Cleanup(func() {
		require.NoError(t, chromedp.Cancel(ctx))
		end()
	})
	require.NoError(t, chromedp.Do(ctx))
	return browser{ctx}
}

// screen is what a tab looks like.
type screen struct {
	width, height int64
	scheme        string // of colors: light or dark
}

var (
	desktop = screen{width: 1280, height: 900, scheme: "light"}
	phone   = screen{width: 390, height: 844, scheme: "light"}
)

func (s screen) dark() screen {
	s.scheme = "dark"
	return s
}

// tab is a tab of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// newTab opens a tab, which closes with the test.
func (all browser) newTab(t *testing.T, s screen) tab {
	t.Helper()
	ctx, end := chromedp.NewContext(all.ctx)
	t.Cleanup(end)
	require.NoError(t, chromedp.Do(ctx)) // the tab ends with the context of the first call
	b := tab{t, ctx}
	b.run(
		chromedp.EmulateViewport(s.width, s.height),
		chromedp.Func(func(ctx context.Context, page *chromedp.Target) error {
			_, err := cdp.Call(ctx, page, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{
					{Name: "prefers-color-scheme", Value: s.scheme},
					{Name: "prefers-reduced-motion", Value: "reduce"},
				},
			})
			return err
		}),
	)
	return b
}

// run does something that must work, within the patience of a person.
func (b tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// open opens a page, and waits until it is there.
func (b tab) open(url string) {
	b.t.Helper()
	b.run(chromedp.Navigate(url))
}

// until waits for an expression in the page to be true. The page may be replaced
// meanwhile.
func (b tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	var last error
	for ctx.Err() == nil {
		var met bool
		met, last = chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if met {
			return
		}
		b.run(chromedp.Sleep(lookEvery))
	}
	require.Fail(b.t, "it did not come true: "+expression, "%v\n%s", last, evaluate[string](b, "document.body.innerText"))
}

// lookEvery is how often a condition in a page is looked at.
const lookEvery = 20 * time.Millisecond

// evaluate returns the value of an expression in the page, or of what that promises.
func evaluate[T any](b tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	return value
}
