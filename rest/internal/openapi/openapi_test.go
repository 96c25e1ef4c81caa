package openapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/api"
	"github.com/mongodb/amboy/rest/internal/openapi"
)

var update = flag.Bool("update", false, "write the served description")

// TestDescriptionIsUpToDate compares the served description with a generated one.
func TestDescriptionIsUpToDate(t *testing.T) {
	description, err := openapi.Describe(api.Routes())
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("../api/openapi.json", append(description, '\n'), 0o644))
		return
	}
	assert.Equal(t, string(description)+"\n", string(api.Description), "run: go test ./rest/internal/openapi -update")
}

// TestDescriptionIsValid validates the description against the schema of OpenAPI 3.1, which
// is that of https://spec.openapis.org/oas/3.1 as contained in version 1.18.0 of the npm
// package @hyperjump/json-schema. The schemas in the description are compiled as JSON Schema
// 2020-12, which OpenAPI 3.1 uses.
func TestDescriptionIsValid(t *testing.T) {
	meta, err := os.ReadFile("testdata/openapi-3.1.schema.json")
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("oas.json", parse(t, meta)))
	schema, err := compiler.Compile("oas.json")
	require.NoError(t, err)
	description := parse(t, api.Description)
	require.NoError(t, schema.Validate(description))

	broken := parse(t, bytes.Replace(api.Description, []byte(`"in": "query"`), []byte(`"in": "nowhere"`), 1))
	require.Error(t, schema.Validate(broken))

	compiler = jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("description.json", description))
	for name := range description.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any) {
		_, err = compiler.Compile("description.json#/components/schemas/" + name)
		assert.NoError(t, err)
	}
}

func parse(t *testing.T, text []byte) any {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	return value
}

// A client reads in the description which types of problems come with which status.
func TestTypesOfProblemsAreDescribed(t *testing.T) {
	schemas := parse(t, api.Description).(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any)
	description := schemas["ProblemKind"].(map[string]any)["description"].(string)
	for _, kind := range api.ProblemTypes() {
		assert.Contains(t, description, strings.TrimPrefix(string(kind), api.TypePrefix))
	}
}

// TestBoundsMatchPackageManagement compares the bounds in the tags of parameters with those
// of package management.
func TestBoundsMatchPackageManagement(t *testing.T) {
	var description struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema struct{ Maximum, MaxItems int }
			}
		}
	}
	require.NoError(t, json.Unmarshal(api.Description, &description))
	found := map[string]int{}
	for _, methods := range description.Paths {
		for _, operation := range methods {
			for _, p := range operation.Parameters {
				if p.Schema.Maximum != 0 {
					found[p.Name] = p.Schema.Maximum
				}
				if p.Schema.MaxItems != 0 {
					found["values"] = p.Schema.MaxItems
				}
			}
		}
	}
	assert.Equal(t, map[string]int{
		"limit": management.MaxLimit, "most": management.MaxCount, "distance": management.MaxGraphDistance, "values": management.MaxFilterValues,
	}, found)
	assert.Contains(t, string(api.Description), fmt.Sprintf("the default is %d", management.DefaultLimit))
	assert.Contains(t, string(api.Description), fmt.Sprintf("the default is %d", management.MaxCount))
}

// TestQueriesHaveTheNamesOfBodies compares the parameters of a search with the filter in a body.
func TestQueriesHaveTheNamesOfBodies(t *testing.T) {
	d := newDescription(t)
	var names []string
	for _, p := range d.Paths["/jobs"]["get"].Parameters {
		switch p.Name {
		case "cursor", "limit", "newest", "args":
		default:
			names = append(names, p.Name)
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(d.Components.Schemas["JobFilter"].Properties)), names)
}

// TestServerURLLeadsToTheRoutes joins the URL of the description, that of its server and a path, as
// generated clients do.
func TestServerURLLeadsToTheRoutes(t *testing.T) {
	var description struct{ Servers []struct{ URL string } }
	require.NoError(t, json.Unmarshal(api.Description, &description))
	at, err := url.Parse("https://example.com/some/where/v2/openapi.json")
	require.NoError(t, err)
	server, err := at.Parse(description.Servers[0].URL)
	require.NoError(t, err)
	assert.Equal(t, "https://example.com/some/where/v2/queues", server.String()+"/queues")
}

// TestExamplesAreValid checks that each route has examples of its body and of its answer, and that
// they match their schemas.
func TestExamplesAreValid(t *testing.T) {
	var description struct {
		Paths map[string]map[string]struct {
			Tags        []string
			RequestBody *struct {
				Content map[string]struct{ Example any }
			}
			Responses map[string]struct {
				Content map[string]struct{ Example any }
			}
		}
	}
	require.NoError(t, json.Unmarshal(api.Description, &description))
	d := newDescription(t)
	check := func(place string, example any) {
		require.NotNil(t, example, "%s has no example: add one to examples.go", place)
		schema, err := d.schema(place + "/schema")
		require.NoError(t, err)
		assert.NoError(t, schema.Validate(example), place)
	}
	for path, methods := range description.Paths {
		if path == "/events" || path == "/openapi.json" {
			continue
		}
		for method, operation := range methods {
			place := "#/paths/" + pointer(path) + "/" + method
			assert.Len(t, operation.Tags, 1, place)
			if operation.RequestBody != nil {
				check(place+"/requestBody/content/"+pointer("application/json"), operation.RequestBody.Content["application/json"].Example)
			}
			for status, response := range operation.Responses {
				if status != "default" {
					check(place+"/responses/"+status+"/content/"+pointer("application/json"), response.Content["application/json"].Example)
				}
			}
		}
	}
}

// TestEverythingHasADescription finds properties and parameters without one.
func TestEverythingHasADescription(t *testing.T) {
	d := parse(t, api.Description).(map[string]any)
	for name, schema := range d["components"].(map[string]any)["schemas"].(map[string]any) {
		describesProperties(t, name, schema.(map[string]any))
	}
	for path, methods := range d["paths"].(map[string]any) {
		for method, operation := range methods.(map[string]any) {
			parameters, _ := operation.(map[string]any)["parameters"].([]any)
			for _, parameter := range parameters {
				p := parameter.(map[string]any)
				assert.NotEmpty(t, p["description"], "parameter %s of %s %s", p["name"], method, path)
			}
		}
	}
}

// describesProperties checks the properties of a schema, and of the schemas within it.
func describesProperties(t *testing.T, name string, schema map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	for property, value := range properties {
		inner := value.(map[string]any)
		assert.NotEmpty(t, inner["description"], "%s.%s", name, property)
		describesProperties(t, name+"."+property, inner)
	}
	for _, within := range []string{"oneOf", "anyOf", "allOf"} {
		choices, _ := schema[within].([]any)
		for _, choice := range choices {
			describesProperties(t, name, choice.(map[string]any))
		}
	}
	if items, is := schema["items"].(map[string]any); is {
		describesProperties(t, name, items)
	}
}
