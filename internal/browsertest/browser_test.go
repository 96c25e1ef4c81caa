package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
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

// errNoBrowser is the error of a machine without a browser that the tests can drive.
var errNoBrowser = errors.New("no browser is installed")

func findBrowser() (string, error) {
	for _, name := range browserNames {
		path, err := exec.LookPath(name)
		if err == nil {
			return path, nil
		}
	}
	return "", errNoBrowser
}

// sharedBrowser is the browser of all tests, which start it when the first tab opens.
// Each tab has a profile of its own.
var sharedBrowser = sync.OnceValues(func() (context.Context, error) {
	path, err := findBrowser()
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "amboy-browser-")
	if err != nil {
		return nil, err
	}
	ctx, end := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // as root there is none
		chromedp.DisableGPU,
		chromedp.UserDataDir(profile),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("enable-blink-features", "ComputedAccessibilityInfo"), // what a screen reader announces
	))
	closeBrowser = func() error {
		err := chromedp.Cancel(ctx)
		end()
		return errors.Join(err, os.RemoveAll(profile))
	}
	return ctx, chromedp.Do(ctx)
})

// closeBrowser closes the shared browser; it is nil until that was started.
var closeBrowser func() error

func TestMain(m *testing.M) {
	code := m.Run()
	if closeBrowser != nil {
		if err := closeBrowser(); err != nil {
			fmt.Fprintln(os.Stderr, "closing the browser:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
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
func newTab(t *testing.T, s screen) tab {
	t.Helper()
	browser, err := sharedBrowser()
	if errors.Is(err, errNoBrowser) {
		missing(t, "Chromium")
	}
	require.NoError(t, err)
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(func() {
		assert.NoError(t, chromedp.Cancel(ctx))
		end()
	})
	require.NoError(t, chromedp.Do(ctx)) // the tab ends with the context of the first call
	b := tab{t, ctx}
	b.run(
		chromedp.EmulateViewport(s.width, s.height),
		// The browser keeps the names of controls then. Else it works them all out for each
		// that is asked for.
		chromedp.Func(func(ctx context.Context, page *chromedp.Target) error {
			_, err := cdp.Call(ctx, page, accessibility.Enable, cdp.Empty{})
			return err
		}),
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

// load does something that loads a page, and waits until that page has been loaded.
func (b tab) load(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.RunResponse(ctx, actions...)
	require.NoError(b.t, err)
}

// until waits for an expression in the page to be true.
func (b tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		met, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if met {
			return
		}
		if ctx.Err() != nil {
			require.Fail(b.t, "it did not come true: "+expression, evaluate[string](b, "document.body.innerText"))
		}
		require.NoError(b.t, err)
		b.run(chromedp.Sleep(lookEvery))
	}
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
