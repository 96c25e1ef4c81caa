package docs_test

import (
	"bytes"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Documentation shows an example with what its file declares. Examples used jobs and helpers of other
// files, which a reader could not see.
func TestExamplesUseWhatAReaderCannotSee(t *testing.T) {
	shown := 0
	for name := range readRepository(t).files {
		if !strings.HasSuffix(name, "_test.go") || strings.Contains(name, "internal/") || strings.HasPrefix(name, "examples/") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.Join("..", name), nil, parser.ParseComments)
		require.NoError(t, err)
		for _, example := range doc.Examples(file) {
			shown++
			if assert.NotNil(t, example.Play, "%s: Example%s uses what another file declares", name, example.Name) {
				assert.Empty(t, unresolved(t, files, example.Play), "%s: Example%s uses what another file declares", name, example.Name)
			}
		}
	}
	assert.Greater(t, shown, 200)
}

// unresolved returns the identifiers of a program that it neither declares nor imports.
func unresolved(t *testing.T, files *token.FileSet, program *ast.File) (names []string) {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, format.Node(&text, files, program))
	parsed, err := parser.ParseFile(token.NewFileSet(), "", text.Bytes(), 0)
	require.NoError(t, err)
	imported := map[string]bool{}
	for _, spec := range parsed.Imports {
		if spec.Name != nil {
			imported[spec.Name.Name] = true
		}
		for _, part := range strings.Split(strings.Trim(spec.Path.Value, `"`), "/") {
			imported[part] = true
		}
	}
	for _, id := range parsed.Unresolved {
		if types.Universe.Lookup(id.Name) == nil && !imported[id.Name] {
			names = append(names, id.Name)
		}
	}
	return names
}
