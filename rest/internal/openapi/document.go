package openapi

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
)

// The packages whose types are in the description, relative to this one.
var packages = []string{".", "../api", "../web", "../../../management", "../../../outside", "../../../job", "../../.."}

// document describes schemas and their properties by the comments of the Go types that they are
// generated from.
func document(schemas map[string]map[string]any) error {
	types, err := readTypes()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		schema := schemas[name]
		if types[name] == nil {
			errs = append(errs, fmt.Errorf("schema %s has no Go type in %q", name, packages))
			continue
		}
		t := types[name][0]
		fields := types.fieldsOf(t)
		set(schema, plain(t.comment, fields))
		properties, _ := schema["properties"].(map[string]any)
		for property := range properties {
			for _, field := range fields {
				if field.property == property {
					set(properties[property].(map[string]any), plain(field.comment, fields))
				}
			}
			set(properties[property].(map[string]any), usual[property])
		}
	}
	return errors.Join(errs...)
}

func set(schema map[string]any, description string) {
	if schema["description"] == nil && description != "" {
		schema["description"] = description
	}
}

// goTypes are the declared types, by their names, in the order of their packages.
type goTypes map[string][]*goType

type goType struct {
	comment  string
	fields   []goField
	embedded []string
}

type goField struct{ name, property, comment string }

// fieldsOf returns the fields of a type and of its embedded types.
func (t goTypes) fieldsOf(of *goType) []goField {
	fields := of.fields
	for _, name := range of.embedded {
		for _, embedded := range t[name] {
			if embedded != of { // api.Created embeds management.Created
				fields = append(fields, t.fieldsOf(embedded)...)
			}
		}
	}
	return fields
}

func readTypes() (goTypes, error) {
	types := goTypes{}
	for _, directory := range packages {
		files, err := filepath.Glob(filepath.Join(directory, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			for _, declaration := range parsed.Decls {
				if d, is := declaration.(*ast.GenDecl); is && d.Tok == token.TYPE {
					types.add(fset, d)
				}
			}
		}
	}
	return types, nil
}

func (t goTypes) add(fset *token.FileSet, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		declared := spec.(*ast.TypeSpec)
		if declared.Assign.IsValid() {
			continue // an alias has no schema
		}
		found := &goType{comment: declared.Doc.Text()}
		if len(d.Specs) == 1 {
			found.comment = d.Doc.Text()
		}
		if structure, is := declared.Type.(*ast.StructType); is {
			found.readFields(fset, structure)
		}
		t[declared.Name.Name] = append(t[declared.Name.Name], found)
	}
}

// readFields reads the fields of a struct. A comment describes the fields of the following lines too, if
// it names them.
func (t *goType) readFields(fset *token.FileSet, structure *ast.StructType) {
	comment, line := "", 0
	for _, field := range structure.Fields.List {
		if field.Doc != nil || fset.Position(field.Pos()).Line != line+1 {
			comment = field.Doc.Text()
		}
		line = fset.Position(field.End()).Line
		if len(field.Names) == 0 {
			t.embedded = append(t.embedded, lastName(field.Type))
			continue
		}
		if field.Tag == nil {
			continue
		}
		tag, _ := strconv.Unquote(field.Tag.Value) // the compiler has checked it
		property, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		for _, name := range field.Names {
			named := goField{name: name.Name, property: property}
			if regexp.MustCompile(`\b` + name.Name + `\b`).MatchString(comment) {
				named.comment = comment
			}
			t.fields = append(t.fields, named)
		}
	}
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return lastName(e.X)
	default:
		return ""
	}
}

var (
	spaces = regexp.MustCompile(`\s+`)
	// seeGo is a reference to a Go declaration in parentheses.
	seeGo = regexp.MustCompile(` \(see (package )?[\w.]*[A-Z]\w*[^)]*\)`)
	// absent is the value that JSON leaves out.
	absent    = regexp.MustCompile(`\b(nil|zero|empty) (if|means|for|unless)\b`)
	qualified = regexp.MustCompile(`\b[A-Za-z]+\.([A-Z]\w*)`)
	words     = regexp.MustCompile(`\b[A-Z]\w*`)
)

// constants are the values of the constants that comments name.
var constants = map[string]string{
	"MaxLimit": strconv.Itoa(management.MaxLimit), "DefaultLimit": strconv.Itoa(management.DefaultLimit),
	"MaxActLimit": strconv.Itoa(management.MaxActLimit), "MaxFilterBytes": fmt.Sprintf("%d bytes", management.MaxFilterBytes),
	"MaxReasonBytes": fmt.Sprintf("%d bytes", management.MaxReasonBytes), "MaxListedArgs": strconv.Itoa(management.MaxListedArgs), "MaxSearchedArgs": fmt.Sprintf("%d bytes", management.MaxSearchedArgs),
	"MaxGroupTypes": strconv.Itoa(management.MaxGroupTypes), "MaxBusiest": strconv.Itoa(management.MaxBusiest),
	"MaxAttemptErrorSize": strconv.Itoa(amboy.MaxAttemptErrorSize), "MaxAttemptStackSize": strconv.Itoa(amboy.MaxAttemptStackSize),
	"MaxListedInterruptions": strconv.Itoa(amboy.MaxListedInterruptions), "MaxTokenBytes": strconv.Itoa(outside.MaxTokenBytes),
}

// overHTTP replaces the parts of comments that are wrong for clients over HTTP.
var overHTTP = strings.NewReplacer(
	"number of the attempt, from 0", "number of the attempt, from 1", "numbers the attempt, from 0", "numbers the attempt, from 1",
	" A value is immutable once it is in a status; its methods return new values. A nil *Interruptions is empty.", "",
	" It must not be changed in place.", "", "those of a job of job.Define", "those of a typed job",
	"Fields that are nil stay", "Fields that are absent stay", "the JSON form of an DuplicateJobError", "what a job is a duplicate of",
	"a Duration that is a text", "a text", "CreateJob accepts the type. Over HTTP, rest.CreateTypes decides", "this service lets clients create jobs of the type",
	"ActOnJobs is a management.ActRequest whose filter is required", "ActOnJobs requests an action on the jobs that a filter selects, or on a page of them",
	": Blank, or TypePrefix and a web.Kind", "", "an ActionKind, \"create\", \"control\", or WhatRefused", "an action, create, control, or refused",
	"from From, inclusive, to To, exclusive", "of times that are not before its bound from, and before its bound to",
)

// usual describes the properties that have no comments of their own, because their names say it.
var usual = map[string]string{
	"queue": "The name of the queue", "id": "The ID of the job", "type": "The type of the job", "version": "The version of the type",
	"state": "The state of the job", "priority": "The priority; jobs with a higher one start first", "tags": "The tags of the job",
	"metadata": "Names and values that belong to the job", "created": "When it was created", "started": "When it started", "ended": "When it ended",
	"due": "The earliest time at which it may start", "deadline": "The latest time at which it may start", "time": "When it was, or will be",
	"next": "The cursor of the next page; absent on the last page", "name": "The name", "error": "The error", "owner": "The process that ran it",
	"max_attempts": "The number of attempts that it has", "action": "The action", "filter": "The jobs to act on", "token": "The lease",
	"count": "The number", "counts": "The number of jobs by their progress", "control": "The controls of the queue",
}

// plain turns the comment of a Go declaration into a description for clients in other languages:
// fields have the names of their properties, and constants are numbers.
func plain(comment string, fields []goField) string {
	text := overHTTP.Replace(strings.TrimSpace(spaces.ReplaceAllString(comment, " ")))
	text = seeGo.ReplaceAllString(text, "")
	text = absent.ReplaceAllString(text, "absent $2")
	text = qualified.ReplaceAllString(text, "$1")
	text = words.ReplaceAllStringFunc(text, func(word string) string {
		if value, known := constants[word]; known {
			return value
		}
		for _, field := range fields {
			if field.name == word && field.property != "" && field.property != "-" {
				return field.property
			}
		}
		return word
	})
	return strings.TrimSuffix(text, ".")
}
