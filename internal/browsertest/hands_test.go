package browsertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// hands is a way to operate a page. Controls are found by the accessible name that a screen
// reader announces, or by its beginning.
type hands interface {
	// follow activates a link or a button that loads a page, and waits for the page.
	follow(b tab, name string)
	// press activates a control that does not load a page, such as a summary.
	press(b tab, name string)
	// choose chooses an option of a list.
	choose(b tab, name, option string)
	// check toggles a checkbox.
	check(b tab, name string)
}

// findControl is a JavaScript function that returns the control with a name, preferring an
// exact match.
const findControl = `name => {
	const controls = [...document.querySelectorAll("a[href], button, summary, select, input, [role=button]")]
		.filter(e => e.checkVisibility());
	const names = controls.map(e => e.computedName.trim());
	const found = names.indexOf(name);
	return controls[found >= 0 ? found : names.findIndex(n => n.startsWith(name))] ?? null;
}`

func quoted(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return string(encoded)
}

// find waits for the control with a name.
func (b tab) find(name string) {
	b.t.Helper()
	b.until(fmt.Sprintf("(%s)(%s)", findControl, quoted(name)))
}

// mouse operates a page with clicks.
type mouse struct{}

type point struct{ X, Y float64 }

// aim returns the action that clicks on a control.
func (mouse) aim(b tab, name string) chromedp.Action[chromedp.Void] {
	b.t.Helper()
	b.find(name)
	at := evaluate[point](b, fmt.Sprintf(`(() => {
		const control = (%s)(%s);
		control.scrollIntoView({block: "center"});
		const box = control.getBoundingClientRect();
		return {x: box.x + box.width / 2, y: box.y + box.height / 2};
	})()`, findControl, quoted(name)))
	return chromedp.MouseClickXY(at.X, at.Y)
}

func (m mouse) follow(b tab, name string) {
	b.t.Helper()
	b.load(m.aim(b, name))
}

func (m mouse) press(b tab, name string) {
	b.t.Helper()
	b.run(m.aim(b, name))
}

func (m mouse) check(b tab, name string) {
	b.t.Helper()
	b.run(m.aim(b, name))
}

// choose never opens the list, because an open list is not part of the page.
func (m mouse) choose(b tab, name, option string) {
	b.t.Helper()
	b.run(m.aim(b, name))
	b.run(chromedp.KeyEvent(option), chromedp.KeyEvent(kb.Enter))
	b.chosen(option)
}

// chosen waits until the focused list shows an option.
func (b tab) chosen(option string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.activeElement.selectedOptions?.[0]?.text === %s`, quoted(option)))
}

// keyboard operates a page with keys only.
type keyboard struct{}

// maxTabs is the maximum number of additional Tab presses.
const maxTabs = 50

// tabsTo is a JavaScript function that returns the number of controls from the focus to the
// control with a name.
const tabsTo = `name => {
	const stops = [...document.querySelectorAll("a[href], button, summary, select, input, [tabindex='0']")]
		.filter(e => e.checkVisibility() && e.type !== "hidden");
	return Math.max(0, stops.indexOf((` + findControl + `)(name)) - stops.indexOf(document.activeElement));
}`

// goTo moves the focus to a control.
func (keyboard) goTo(b tab, name string) {
	b.t.Helper()
	b.find(name)
	tabs := evaluate[int](b, fmt.Sprintf("(%s)(%s)", tabsTo, quoted(name)))
	b.run(chromedp.KeyEvent(strings.Repeat(kb.Tab, tabs)))
	for range maxTabs {
		if evaluate[bool](b, fmt.Sprintf(`document.activeElement === (%s)(%s)`, findControl, quoted(name))) {
			isVisible := evaluate[bool](b, `getComputedStyle(document.activeElement).outlineStyle !== "none" || getComputedStyle(document.activeElement).boxShadow !== "none"`)
			require.True(b.t, isVisible, "the focus on %q must be visible", name)
			return
		}
		b.run(chromedp.KeyEvent(kb.Tab))
	}
	require.Fail(b.t, "the keyboard can't reach "+name, evaluate[string](b, "document.body.innerText"))
}

func (k keyboard) follow(b tab, name string) {
	b.t.Helper()
	k.goTo(b, name)
	b.load(chromedp.KeyEvent(kb.Enter))
}

func (k keyboard) press(b tab, name string) {
	b.t.Helper()
	k.goTo(b, name)
	b.run(chromedp.KeyEvent(kb.Enter))
}

func (k keyboard) check(b tab, name string) {
	b.t.Helper()
	k.goTo(b, name)
	b.run(chromedp.KeyEvent(" "))
}

func (k keyboard) choose(b tab, name, option string) {
	b.t.Helper()
	k.goTo(b, name)
	b.run(chromedp.KeyEvent(option))
	b.chosen(option)
}

// withEach runs a test with the mouse and with the keyboard.
func withEach(t *testing.T, errand func(t *testing.T, h hands)) {
	t.Run("mouse", func(t *testing.T) { errand(t, mouse{}) })
	t.Run("keyboard", func(t *testing.T) { errand(t, keyboard{}) })
}
