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
	"github.com/stretchr/testify/require"
)

// requireVariable is the environment variable that makes skipped tests fail.
const requireVariable = "AMBOY_TEST_BROWSER"

// browserNames are the names of the supported programs.
var browserNames = []string{"chromium", "chromium-browser", "google-chrome"}

// patience is the timeout of everything in a page.
const patience = 2 * time.Minute

// missing skips a test because something is not installed.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv(requireVariable) != "" {
		require.Fail(t, what+" is not installed, and "+requireVariable+" is set")
	}
	t.Skip(what + " is not installed")
}

// errNoBrowser is returned if no supported browser is installed.
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

// sharedBrowser starts the browser of all tests on first use. Each tab has its own profile.
var sharedBrowser = sync.OnceValues(func() (context.Context, error) {
	path, err := findBrowser()
	if err != nil {
		return nil, err
	}
	ctx, end := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // the sandbox does not work as root
		chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("enable-blink-features", "ComputedAccessibilityInfo"), // the names that a screen reader announces
	))
	closeBrowser = func() error {
		defer end()
		return chromedp.Cancel(ctx)
	}
	return ctx, chromedp.Do(ctx)
})

// closeBrowser closes the shared browser; nil before it was started.
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

// screen is the size and the color scheme of a tab.
type screen struct {
	width, height int64
	scheme        string // light or dark
}

var (
	desktop = screen{width: 1280, height: 900, scheme: "light"}
	tablet  = screen{width: 820, height: 1180, scheme: "light"}
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

// newTab opens a tab, which is closed at the end of the test.
func newTab(t *testing.T, s screen) tab {
	t.Helper()
	browser, err := sharedBrowser()
	if errors.Is(err, errNoBrowser) {
		missing(t, "Chromium")
	}
	require.NoError(t, err)
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("closing a tab, which a busy machine may not do in time: %v", err)
		}
		end()
	})
	require.NoError(t, chromedp.Do(ctx)) // the tab lives as long as the context of the first call
	b := tab{t, ctx}
	b.use(s)
	b.run(
		// With this the browser caches the accessible names of controls. Otherwise it computes
		// all of them for each one that is read.
		chromedp.Func(func(ctx context.Context, page *chromedp.Target) error {
			_, err := cdp.Call(ctx, page, accessibility.Enable, cdp.Empty{})
			return err
		}),
	)
	return b
}

// use emulates a screen.
func (b tab) use(s screen) {
	b.t.Helper()
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
}

// run performs actions that must succeed within the timeout.
func (b tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// open loads a page.
func (b tab) open(url string) {
	b.t.Helper()
	b.run(chromedp.Navigate(url))
}

// load performs actions that load a page, and waits until it is loaded.
func (b tab) load(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.RunResponse(ctx, actions...)
	require.NoError(b.t, err)
}

// until waits until an expression in the page is true.
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
			require.Fail(b.t, "condition not met: "+expression, evaluate[string](b, "document.body.innerText"))
		}
		require.NoError(b.t, err)
		b.run(chromedp.Sleep(pollInterval))
	}
}

// pollInterval is the time between two evaluations of a condition.
const pollInterval = 20 * time.Millisecond

// evaluate returns the value of an expression in the page, and awaits promises.
func evaluate[T any](b tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	return value
}
