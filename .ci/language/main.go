// Command language counts words in the comments of the Go files below the current
// directory that are a smoke alarm for English that has to be decoded. It fails if there
// are too many of them, or too few; see CONTRIBUTING.md.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// alarm is an expression, and how often it may occur.
type alarm struct {
	name        string
	expression  *regexp.Regexp
	least, most float64 // for 1,000 words
}

var alarms = []alarm{
	{name: `"where"`, expression: regexp.MustCompile(`(?i)\bwhere\b`), most: 1.5},
	{name: `"if"`, expression: regexp.MustCompile(`(?i)\bif\b`), least: 6, most: 1000},
	{name: `"tells whether", "says whether"`, expression: regexp.MustCompile(`(?i)\b(tells?|told|says?|said)\s+whether\b`)},
}

var word = regexp.MustCompile(`[A-Za-z']+`)

func main() {
	comments, err := read(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "language:", err)
		os.Exit(1)
	}
	if !check(comments) {
		os.Exit(1)
	}
}

// read returns the text of all comments below a directory.
func read(root string) (string, error) {
	var text strings.Builder
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			if !ast.IsGenerated(file) {
				text.WriteString(group.Text())
			}
		}
		return nil
	})
	return text.String(), err
}

// check prints the counts, and reports whether all are within their bounds.
func check(comments string) bool {
	words := len(word.FindAllString(comments, -1))
	fmt.Printf("%d words of comments\n", words)
	ok := true
	for _, a := range alarms {
		found := 1000 * float64(len(a.expression.FindAllString(comments, -1))) / float64(words)
		verdict := ""
		if found < a.least || found > a.most {
			verdict, ok = fmt.Sprintf(": must be from %g to %g", a.least, a.most), false
		}
		fmt.Printf("%s: %.2f for 1,000 words%s\n", a.name, found, verdict)
	}
	return ok
}
