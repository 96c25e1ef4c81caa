package mongodb

import "go.mongodb.org/mongo-driver/bson"

// legacyScopes returns the scopes that a legacy document's job needs to run. The legacy
// library stores them only in the body, in the embedded base of the job, whose place and field name
// depend on the job's type: it may be in a base of the service's own.
func legacyScopes(body bson.Raw) []string {
	const deepest = 2
	docs := []bson.Raw{body}
	for range deepest + 1 {
		var inner []bson.Raw
		for _, doc := range docs {
			if isJobBase(doc) {
				return scopesOf(doc)
			}
			inner = append(inner, documentsIn(doc)...)
		}
		docs = inner
	}
	return nil
}

// isJobBase reports whether a document is the base of a job.
func isJobBase(doc bson.Raw) bool {
	_, hasType := doc.Lookup("job_type").DocumentOK()
	return hasType
}

func scopesOf(base bson.Raw) []string {
	var scopes []string
	if err := base.Lookup("required_scopes").Unmarshal(&scopes); err != nil {
		return nil
	}
	return scopes
}

// documentsIn returns the documents that are fields of a document.
func documentsIn(doc bson.Raw) (inner []bson.Raw) {
	elements, err := doc.Elements()
	if err != nil {
		return nil
	}
	for _, e := range elements {
		if part, ok := e.Value().DocumentOK(); ok {
			inner = append(inner, part)
		}
	}
	return inner
}
