package local

import "slices"

// localTags holds the tags of the jobs of a local queue. The queue's lock guards it.
type localTags struct {
	byJob map[string][]string
	byTag map[string]map[string]struct{} // tag to job IDs
}

// add records the tags that a job was put with.
func (t *localTags) add(id string, tags []string) {
	if len(tags) == 0 {
		return
	}
	if t.byJob == nil {
		t.byJob = map[string][]string{}
		t.byTag = map[string]map[string]struct{}{}
	}
	t.byJob[id] = slices.Clone(tags)
	for _, tag := range tags {
		if t.byTag[tag] == nil {
			t.byTag[tag] = map[string]struct{}{}
		}
		t.byTag[tag][id] = struct{}{}
	}
}

// remove removes a job and its tags.
func (t *localTags) remove(id string) {
	for _, tag := range t.byJob[id] {
		delete(t.byTag[tag], id)
		if len(t.byTag[tag]) == 0 {
			delete(t.byTag, tag)
		}
	}
	delete(t.byJob, id)
}

// of returns the tags of a job.
func (t *localTags) of(id string) []string { return t.byJob[id] }

// jobs yields the IDs of the jobs with a tag, in no particular order.
func (t *localTags) jobs(tag string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for id := range t.byTag[tag] {
			if !yield(id) {
				return
			}
		}
	}
}
