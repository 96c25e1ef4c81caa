// Package docs_test checks what the pages refer to.
package docs_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	codeBlock = regexp.MustCompile("(?s)```.*?\n```")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug = regexp.MustCompile(`[^\w\- ]`)
	testName  = regexp.MustCompile(`\b(?:Test|Example|Benchmark)[A-Z_]\w*`)
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Example|Benchmark)\w*)\(`)
	jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)\n```")
	jsonArg   = regexp.MustCompile(`(?s)--(?:json|data|args) '([^']*)'`)
	goFile    = regexp.MustCompile(`[\w./-]*\w\.go\b`)
)

// repository contains the files of the repository, by paths relative to its root.
type repository struct {
	files map[string]bool
	// tests are the names of tests, examples and benchmarks.
	tests map[string]bool
	// pages are the texts of the pages, by path.
	pages map[string]string
}

// walkRepository reads the repository, once for all tests.
var walkRepository = sync.OnceValues(func() (repository, error) {
	r := repository{files: map[string]bool{}, tests: map[string]bool{}, pages: map[string]string{}}
	root := os.DirFS("..")
	walked := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules") {
			return fs.SkipDir
		}
		r.files[name] = true
		isTest, isPage := strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, ".md")
		if !isTest && !isPage {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if isPage {
			r.pages[name] = string(text)
		}
		for _, match := range testFunc.FindAllStringSubmatch(string(text), -1) {
			r.tests[match[1]] = true
		}
		return err
	})
	return r, walked
})

func readRepository(t *testing.T) repository {
	t.Helper()
	r, err := walkRepository()
	require.NoError(t, err)
	return r
}

// checked lists the pages that are checked. CHANGELOG.md is not: it tells of the past.
func (r repository) checked() map[string]string {
	pages := map[string]string{}
	for name, text := range r.pages {
		if strings.HasPrefix(name, "docs/") || name == "README.md" || name == "CONTRIBUTING.md" || name == "benchmarks/README.md" {
			pages[name] = text
		}
	}
	return pages
}

// anchors returns the anchors of the headings of a page.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		slug := notInSlug.ReplaceAllString(strings.ToLower(match[1]), "")
		all[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return all
}

func TestLinksLeadToFilesAndHeadings(t *testing.T) {
	r := readRepository(t)
	for name, text := range r.checked() {
		for _, match := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(match[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			assert.True(t, r.files[target], "%s: the link %s leads to no file", name, match[1])
			if anchor != "" {
				assert.True(t, anchors(r.pages[target])[anchor], "%s: the link %s leads to no heading", name, match[1])
			}
		}
	}
}

// A page that is not in the table of contents is not found.
func TestEveryPageIsInTheTableOfContents(t *testing.T) {
	pages := readRepository(t).pages
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && name != "docs/README.md" {
			assert.Contains(t, pages["docs/README.md"], "]("+strings.TrimPrefix(name, "docs/")+")", "docs/README.md does not list %s", name)
		}
	}
}

func TestNamedTestsExist(t *testing.T) {
	r := readRepository(t)
	for name, text := range r.checked() {
		for _, test := range testName.FindAllString(text, -1) {
			assert.True(t, test == "TestX" || r.tests[test], "%s: %s does not exist", name, test)
		}
	}
}

func TestNamedGoFilesExist(t *testing.T) {
	r := readRepository(t)
	suffixes := map[string]bool{}
	for file := range r.files {
		parts := strings.Split(filepath.ToSlash(file), "/")
		for i := range parts {
			suffixes[strings.Join(parts[i:], "/")] = true
		}
	}
	for name, text := range r.checked() {
		for _, file := range goFile.FindAllString(text, -1) {
			file = strings.TrimLeft(file, "./")
			if strings.HasPrefix(file, "github.com/") || file == "mail/send.go" { // an example of a user's file
				continue
			}
			assert.True(t, suffixes[file], "%s: the file %s does not exist", name, file)
		}
	}
}

// Some JSON had gaps, and could not be sent.
func TestJSONOfPagesCannotBeSent(t *testing.T) {
	for name, text := range readRepository(t).checked() {
		for _, pattern := range []*regexp.Regexp{jsonBlock, jsonArg} {
			for _, match := range pattern.FindAllStringSubmatch(text, -1) {
				assert.True(t, json.Valid([]byte(match[1])), "%s: this is not JSON: %s", name, match[1])
			}
		}
	}
}

// Running an example in a checkout left files that git status showed.
func TestFilesOfExamplesAreNotIgnored(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	if _, err = os.Stat("../.git"); err != nil {
		t.Skip("this is not a checkout")
	}
	for _, file := range []string{"outside.db", "outside.db-wal", "examples/outside/outside.db-shm", "jobs.db", "jobs.db-wal"} {
		out, err := exec.CommandContext(t.Context(), git, "-C", "..", "check-ignore", file).CombinedOutput()
		assert.NoError(t, err, "%s is not ignored: %s", file, out)
	}
}
