package mongodb

import "go.mongodb.org/mongo-driver/bson"

// legacyScopes returns the scopes that a legacy document's job needs to run. The legacy
// library stores them only in the body, in the embedded base of the job, whose field name
// depends on the job's type.
func legacyScopes(body bson.Raw) []string {
	if scopes := scopesAmong(body); len(scopes) > 0 {
		return scopes
	}
	elements, err := body.Elements()
	if err != nil {
		return nil
	}
	for _, e := range elements {
		if part, ok := e.Value().DocumentOK(); ok {
			if scopes := scopesAmong(part); len(scopes) > 0 {
				return scopes
			}
		}
	}
	return nil
}

// scopesAmong returns the scopes in a document that is the base of a job.
func scopesAmong(doc bson.Raw) []string {
	if _, ok := doc.Lookup("job_type").DocumentOK(); !ok {
		return nil
	}
	var scopes []string
	if err := doc.Lookup("required_scopes").Unmarshal(&scopes); err != nil {
		return nil
	}
	return scopes
}
