package mongodb

import "go.mongodb.org/mongo-driver/bson"

// formerScopes are the scopes that a job needs to run, of a document which the
// former library has written: that stores them in the body alone, among what all
// jobs have in common, under a name that the job's type gives to that.
func formerScopes(body bson.Raw) []string {
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

// scopesAmong are those of a document that is what all jobs have in common.
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
