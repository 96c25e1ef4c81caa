package registry_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// resize is a job type: its own fields, the embedded Base, and Run.
type resize struct {
	Path  string `bson:"path" json:"path"`
	Width int    `bson:"width" json:"width"`

	job.Base `bson:"job_base" json:"job_base"`
}

func (r *resize) Run(context.Context) {
	defer r.MarkComplete()
	if r.Width <= 0 {
		r.AddError(errors.New("width must be positive"))
		return
	}
	fmt.Printf("resizing %s to %d pixels\n", r.Path, r.Width)
}

// newResize makes a job for a caller; makeResize makes an empty job for the registry.
func newResize(path string, width int) *resize {
	r := makeResize()
	r.Path, r.Width = path, width
	r.SetID(fmt.Sprintf("resize-%s-%d", path, width))
	return r
}

func makeResize() *resize {
	return &resize{Base: job.Base{JobType: amboy.JobType{Name: "resize", Version: 1}}}
}

func init() {
	registry.AddJobType("resize", func() amboy.Job { return makeResize() })
}

// Define a job type, register it, encode a job and decode it again.
func ExampleAddJobType() {
	stored, err := registry.MakeJobInterchange(newResize("cat.png", 64), amboy.JSON)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stored.JobID(), stored.Type, stored.Version)

	j, err := stored.Resolve(amboy.JSON)
	if err != nil {
		log.Fatal(err)
	}
	if err = amboy.RunJob(context.Background(), j); err != nil {
		log.Fatal(err)
	}
	// Output:
	// resize-cat.png-64 resize 1
	// resizing cat.png to 64 pixels
}

// Decode jobs that were stored before the width was part of the type.
func ExampleAddJobUpgrade() {
	err := registry.AddJobUpgrade("resize", 0, func(body map[string]any) error {
		body["width"] = 128
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	stored, err := registry.DecodeJobInterchange([]byte(`{
		"name": "resize-dog.png", "type": "resize", "version": 0,
		"job": {"path": "dog.png"}
	}`), amboy.JSON)
	if err != nil {
		log.Fatal(err)
	}
	j, err := stored.Resolve(amboy.JSON)
	if err != nil {
		log.Fatal(err)
	}
	if err = amboy.RunJob(context.Background(), j); err != nil {
		log.Fatal(err)
	}
	fmt.Println(j.Type().Version)
	// Output:
	// resizing dog.png to 128 pixels
	// 1
}

// Register a type for good. AddJobType replaces a factory, and logs a warning.
func ExampleRegisterJobType() {
	err := registry.RegisterJobType("resize", func() amboy.Job { return makeResize() })
	fmt.Println(errors.Is(err, registry.ErrTypeTaken))
	// Output: true
}

// List the types that this process can decode.
func ExampleJobTypeNames() {
	for name := range registry.JobTypeNames() {
		if name == "resize" {
			fmt.Println(name)
		}
	}
	// Output: resize
}

// A job whose type this process does not know is left to others.
func ExampleUnknownTypeError() {
	stored, err := registry.DecodeJobInterchange([]byte(`{"name": "a", "type": "no-such-type", "version": 1, "job": {}}`), amboy.JSON)
	if err != nil {
		log.Fatal(err)
	}
	_, err = stored.Resolve(amboy.JSON)
	var unknown *registry.UnknownTypeError
	fmt.Println(errors.As(err, &unknown), registry.IsUnknown(err))
	// Output: true true
}
