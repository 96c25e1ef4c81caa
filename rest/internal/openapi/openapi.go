// Package openapi generates the OpenAPI 3.1 description of the routes of package api. The
// result is a file of that package, which a test keeps up to date, so that programs that
// import the library do not need the generator.
package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/swaggest/jsonschema-go"
	"github.com/swaggest/openapi-go"
	"github.com/swaggest/openapi-go/openapi31"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/rest/internal/api"
)

const about = `Inspects and controls the jobs of queues. The program that serves it authorizes the requests: a request whose sender is not known is answered with 401, and one that is not allowed with 403.

In a path, a queue is identified by its percent-encoded name; by _ if it has no name, and with another underscore in front of a name that begins with one. Parameters and fields that are not described are refused.

Lists have pages: next in an answer, and the Link header, lead to the next one. Every failure is a Problem (RFC 9457).`

// serverURL is relative to the URL of the description. Joined with a path it has no double slash,
// which ".." would have.
const serverURL = "../v2"

// The tags, which group the routes.
const (
	tagQueues  = "queues"
	tagJobs    = "jobs"
	tagWorkers = "workers"
	tagStore   = "store"
)

var tags = []openapi31.Tag{
	*(&openapi31.Tag{Name: tagQueues}).WithDescription("Queues, their controls, and events about them"),
	*(&openapi31.Tag{Name: tagJobs}).WithDescription("Jobs: search, counts, details, creation and actions"),
	*(&openapi31.Tag{Name: tagWorkers}).WithDescription("Leases for workers in any language"),
	*(&openapi31.Tag{Name: tagStore}).WithDescription("What concerns all queues of a store: processes, schedules, scopes, activity, diagnosis and audit"),
}

// tagOf returns the tag of a route.
func tagOf(route api.Route) string {
	switch path := route.Pattern; {
	case strings.Contains(path, "/jobs"):
		return tagJobs
	case strings.HasPrefix(path, "/v2/queues"), path == "/v2/totals", path == "/v2/events":
		return tagQueues
	case strings.HasPrefix(path, "/v2/leases"):
		return tagWorkers
	default:
		return tagStore
	}
}

// The names of components.
const (
	bearer      = "bearer"
	problemName = "Problem"
)

// Describe returns the description of the routes as JSON.
func Describe(routes []api.Route) ([]byte, error) {
	reflector := openapi31.NewReflector()
	spec := reflector.Spec
	spec.Info.WithTitle("Amboy").WithVersion("2").WithDescription(about).
		WithLicense(*(&openapi31.License{Name: "Apache 2.0"}).WithIdentifier("Apache-2.0"))
	spec.WithServers(*(&openapi31.Server{}).WithURL(serverURL).WithDescription("v2 below the URL at which the handler is mounted"))
	spec.WithTags(tags...)
	secure(spec)
	reflector.DefaultOptions = append(reflector.DefaultOptions,
		jsonschema.InterceptSchema(values),
		jsonschema.InterceptProp(require),
		jsonschema.InterceptDefName(func(t reflect.Type, _ string) string { return strings.ToUpper(t.Name()[:1]) + t.Name()[1:] }),
	)
	for _, route := range routes {
		if err := add(reflector, route); err != nil {
			return nil, fmt.Errorf("describing %s: %w", route.Mux(), err)
		}
	}
	if err := finish(spec); err != nil {
		return nil, err
	}
	return json.MarshalIndent(spec, "", "  ")
}

// secure describes how clients authenticate.
func secure(spec *openapi31.Spec) {
	spec.ComponentsEns().
		WithSecuritySchemesItem(bearer, openapi31.SecuritySchemeOrReference{SecurityScheme: (&openapi31.SecurityScheme{}).
			WithDescription("A token that the program accepts. A program may authenticate its clients in other ways instead.").
			WithHTTPBearer(openapi31.SecuritySchemeHTTPBearer{Scheme: "bearer"})})
	spec.WithSecurity(map[string][]string{bearer: {}})
}

func add(reflector *openapi31.Reflector, route api.Route) error {
	operation, err := reflector.NewOperationContext(route.Method, strings.TrimPrefix(route.Pattern, "/v2"))
	if err != nil {
		return err
	}
	example := examples[route.Name]
	operation.SetID(route.Name)
	operation.SetSummary(route.Summary)
	operation.SetTags(tagOf(route))
	operation.AddReqStructure(route.Input)
	if route.Body != nil {
		operation.AddReqStructure(route.Body, openapi.WithContentType("application/json"), requiredWith(example.body))
	}
	for status, value := range route.Answers {
		switch {
		case value != nil && status == http.StatusCreated:
			operation.AddRespStructure(location{}, openapi.WithHTTPStatus(status))
			operation.AddRespStructure(value, openapi.WithHTTPStatus(status), answerWith(example.answer))
		case value != nil:
			operation.AddRespStructure(value, openapi.WithHTTPStatus(status), answerWith(example.answer))
		case strings.HasSuffix(route.Pattern, "/events"):
			operation.AddRespStructure(Event{}, openapi.WithHTTPStatus(status), openapi.WithContentType(api.EventStream), asStream)
		default:
			operation.AddRespStructure(map[string]any{}, openapi.WithHTTPStatus(status))
		}
	}
	// With the same default answer everywhere, and no other statuses, generated clients return it as
	// their error.
	operation.AddRespStructure(api.Problem{}, func(c *openapi.ContentUnit) { c.IsDefault = true }, openapi.WithContentType(api.ProblemType))
	return reflector.AddOperation(operation)
}

// The events of watchQueues.
type (
	// Event is an event.
	Event struct{}
	// QueuesEvent contains the queues, or the busiest of more than 1000, now and after each
	// change.
	QueuesEvent struct {
		// Event is the kind of the event.
		Event string `json:"event" const:"queues"`
		// Data describes the queues as they are now.
		Data management.QueuePage `json:"data"`
	}
	// ErrorEvent is the last event, if the events end with an error.
	ErrorEvent struct {
		// Event is the kind of the event.
		Event string `json:"event" const:"error"`
		// Data is the problem because of which the events end.
		Data api.Problem `json:"data"`
	}
)

// JSONSchemaOneOf lists the kinds of events.
func (Event) JSONSchemaOneOf() []any { return []any{QueuesEvent{}, ErrorEvent{}} }

// finish completes what the reflector leaves out.
func finish(spec *openapi31.Spec) error {
	problem := openapi31.ResponseOrReference{Reference: &openapi31.Reference{Ref: "#/components/responses/" + problemName}}
	for path, item := range spec.Paths.MapOfPathItemValues {
		for _, operation := range []*openapi31.Operation{item.Get, item.Post, item.Patch, item.Delete} {
			if operation == nil {
				continue
			}
			operation.MapOfAnything = nil // marks of the reflector
			for _, p := range operation.Parameters {
				// A range of times has the names that it has in a body.
				if p.Parameter.Content != nil {
					p.Parameter.WithSchema(p.Parameter.Content["application/json"].Schema)
					p.Parameter.WithStyle(openapi31.ParameterStyleDeepObject).WithExplode(true).Content = nil
				}
			}
			responses := operation.Responses
			content := responses.Default.Response
			content.Description = "Why the request failed"
			spec.Components.WithResponsesItem(problemName, openapi31.ResponseOrReference{Response: content})
			responses.WithDefault(problem)
		}
		spec.Paths.MapOfPathItemValues[path] = item
	}
	spec.Components.Schemas["Event"]["discriminator"] = map[string]any{"propertyName": "event", "mapping": map[string]any{
		api.QueuesEvent: "#/components/schemas/QueuesEvent", api.ErrorEvent: "#/components/schemas/ErrorEvent",
	}}
	return document(spec.Components.Schemas)
}

// requiredWith marks a body as required, and adds an example if there is one.
func requiredWith(example string) openapi.ContentOption {
	return func(unit *openapi.ContentUnit) {
		unit.Customize = func(content openapi.ContentOrReference) {
			if body, is := content.(*openapi31.RequestBodyOrReference); is {
				addExample(body.RequestBodyEns().WithRequired(true).Content, example)
			}
		}
	}
}

// answerWith adds an example to an answer, if there is one.
func answerWith(example string) openapi.ContentOption {
	return func(unit *openapi.ContentUnit) {
		unit.Customize = func(content openapi.ContentOrReference) {
			if answer, is := content.(*openapi31.ResponseOrReference); is {
				addExample(answer.ResponseEns().Content, example)
			}
		}
	}
}

// asStream describes an answer that does not end, of which the schema describes an event.
func asStream(unit *openapi.ContentUnit) {
	unit.Customize = func(content openapi.ContentOrReference) {
		if answer, is := content.(*openapi31.ResponseOrReference); is {
			media := answer.Response.Content[api.EventStream]
			// ogen can't generate code for events yet: with this it leaves the answer unread.
			media.WithMapOfAnythingItem("x-ogen-raw-response", true)
			answer.Response.Content[api.EventStream] = media
		}
	}
}

func addExample(content map[string]openapi31.MediaType, example string) {
	if example == "" {
		return
	}
	for name, media := range content {
		content[name] = *media.WithExample(json.RawMessage(example))
	}
}

// location describes the header of an answer to a request that created a job.
type location struct {
	Location string `header:"Location" description:"the URL of the job, relative to the request"`
}

// values adds the allowed values of types to their schemas.
func values(params jsonschema.InterceptSchemaParams) (stop bool, err error) {
	if !params.Processed {
		return false, nil
	}
	switch reflect.Zero(indirect(params.Value.Type())).Interface().(type) {
	case amboy.JobState:
		params.Schema.WithEnum(anys(amboy.JobStates())...)
	case management.ActionKind:
		params.Schema.WithEnum(anys(management.ActionKinds())...)
	case api.RefusedAction:
		params.Schema.WithEnum(append(anys(management.ActionKinds()), management.Edit)...)
	case outside.Token:
		params.Schema.WithPattern(`^[A-Za-z0-9_-]*$`).WithMaxLength(outside.MaxTokenBytes)
	case amboy.UniqueUntil:
		params.Schema.WithEnum(amboy.UniqueUntilEnded, amboy.UniqueUntilStarted, amboy.UniqueUntilFailed, amboy.UniqueUntilForgotten)
	case management.FindingKind:
		params.Schema.WithEnum(anys(management.FindingKinds())...)
	case management.Severity:
		params.Schema.WithEnum(management.Critical, management.Warning)
	case api.ProblemKind:
		params.Schema.WithEnum(anys(api.ProblemTypes())...)
	case management.Duration:
		params.Schema.Type = nil
		params.Schema.Format = nil
		params.Schema.WithType(jsonschema.String.Type()).WithPattern(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`).WithExamples("1m30s")
	case api.LeaseBody, api.Acknowledgement, api.CompleteBody, api.FailBody, api.ReleaseBody, api.CheckpointBody, api.AcknowledgeBody,
		api.HeartbeatBody, api.Heartbeat, api.ProgressBody, management.Backoff, management.Keep,
		management.ControlChange, management.NewJob, management.ScheduleChange, api.NewSchedule, api.PauseSchedule, management.Action, api.ActOnJobs, management.JobFilter, management.TimeRange:
		// Requests must not contain unknown fields. Answers may contain more fields
		// in a later version.
		closed := false
		params.Schema.AdditionalProperties = &jsonschema.SchemaOrBool{TypeBoolean: &closed}
	}
	return false, nil
}

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func anys[T any](list []T) []any {
	values := make([]any, len(list))
	for i, value := range list {
		values[i] = value
	}
	return values
}

// require marks fields as required that are never left out, and adds their bounds.
func require(params jsonschema.InterceptPropParams) error {
	if !params.Processed {
		return nil
	}
	tag, isJSON := params.Field.Tag.Lookup("json")
	isRequired := isJSON && !strings.Contains(tag, "omitempty") && !strings.Contains(tag, "omitzero")
	if isRequired && !slices.Contains(params.ParentSchema.Required, params.Name) {
		params.ParentSchema.Required = append(params.ParentSchema.Required, params.Name)
	}
	// Null is not used: empty lists are empty arrays, and other empty fields are left out.
	params.PropertySchema.RemoveType(jsonschema.Null)
	if oc, is := openapi.OperationCtx(params.Context); is && !oc.IsProcessingResponse() && isJSON {
		bound(params)
	}
	return nil
}

// bound adds the bounds of fields of a request that their types don't imply.
func bound(params jsonschema.InterceptPropParams) {
	schema := params.PropertySchema
	switch {
	case params.Name == "limit" && schema.Maximum == nil:
		schema.WithMinimum(1).WithMaximum(management.MaxActLimit)
	case params.Name == "max_running":
		schema.WithMinimum(0)
	case params.Name == "per_second":
		schema.WithMinimum(0).WithMaximum(amboy.MaxRate)
	case params.Name == "burst":
		schema.WithMinimum(0).WithMaximum(amboy.MaxBurst)
	case params.Name == "workers":
		schema.WithMinimum(0).WithMaximum(management.MaxWorkers)
	case params.Name == "reason":
		schema.WithMaxLength(management.MaxReasonBytes)
	case params.Name == "id":
		schema.WithMaxLength(amboy.MaxIDLength)
	case schema.MaxItems == nil && params.Field.Type.Kind() == reflect.Slice && params.Field.Type.Elem().Kind() == reflect.String:
		schema.WithMaxItems(management.MaxFilterValues)
	}
}
