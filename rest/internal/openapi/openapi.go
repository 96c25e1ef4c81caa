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

In a path, a queue is identified by its percent-encoded name; by _ if it has no name, and with another underscore in front of a name that begins with one. Parameters and fields that are not described are refused.`

// Describe returns the description of the routes as JSON.
func Describe(routes []api.Route) ([]byte, error) {
	reflector := openapi31.NewReflector()
	reflector.Spec.Info.WithTitle("Amboy").WithVersion("2").WithDescription(about)
	reflector.Spec.WithServers(*(&openapi31.Server{}).WithURL("..").WithDescription("the URL at which the handler is mounted"))
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
	return json.MarshalIndent(reflector.Spec, "", "  ")
}

func add(reflector *openapi31.Reflector, route api.Route) error {
	operation, err := reflector.NewOperationContext(route.Method, route.Pattern)
	if err != nil {
		return err
	}
	operation.SetID(route.Name)
	operation.SetSummary(route.Summary)
	operation.AddReqStructure(route.Input)
	if route.Body != nil {
		operation.AddReqStructure(route.Body, openapi.WithContentType("application/json"), requiredWith(route.Example))
	}
	for status, value := range route.Answers {
		switch {
		case value != nil && status == http.StatusCreated:
			operation.AddRespStructure(location{}, openapi.WithHTTPStatus(status))
			operation.AddRespStructure(value, openapi.WithHTTPStatus(status), answerWith(route.AnswerExample))
		case value != nil:
			operation.AddRespStructure(value, openapi.WithHTTPStatus(status), answerWith(route.AnswerExample))
		case strings.HasSuffix(route.Pattern, "/events"):
			operation.AddRespStructure("", openapi.WithHTTPStatus(status), openapi.WithContentType(api.EventStream))
		default:
			operation.AddRespStructure(map[string]any{}, openapi.WithHTTPStatus(status))
		}
	}
	for _, status := range problems(route) {
		operation.AddRespStructure(api.Problem{}, openapi.WithHTTPStatus(status), openapi.WithContentType(api.ProblemType))
	}
	return reflector.AddOperation(operation)
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

// problems returns the statuses of the problems of a route.
func problems(route api.Route) []int {
	statuses := []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout,
		http.StatusConflict, http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
	if route.Name == "watchQueues" {
		statuses = append(statuses, http.StatusTooManyRequests)
	}
	if route.Body != nil {
		statuses = append(statuses, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	return statuses
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
	case api.Duration, management.Duration:
		params.Schema.Type = nil
		params.Schema.Format = nil
		params.Schema.WithType(jsonschema.String.Type()).WithPattern(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`)
	case api.LeaseBody, api.Acknowledgement, api.CompleteBody, api.FailBody, api.ReleaseBody, api.CheckpointBody, api.AcknowledgeBody,
		api.HeartbeatBody, api.Heartbeat, api.ProgressBody, management.Backoff, management.Keep,
		management.ControlChange, management.NewJob, management.ScheduleSpec, api.NewSchedule, api.PauseSchedule, management.Action, api.ActOnJobs, management.JobFilter, management.TimeRange:
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
