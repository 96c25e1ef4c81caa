package registry_test

import (
	"testing"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

func benchmarkSample() *sample {
	j := newSample("report")
	j.Path, j.Bytes = "docs/report.txt", 4096
	j.Tags, j.Labels = []string{"a", "b"}, map[string]string{"kind": "report"}
	j.SetScopes([]string{"folder"})
	j.UpdateTimeInfo(amboy.JobTimeInfo{Created: at(0), Start: at(1)})
	return j
}

func BenchmarkMakeJobInterchange(b *testing.B) {
	for _, f := range formats {
		b.Run(f.String(), func(b *testing.B) {
			j := benchmarkSample()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := registry.MakeJobInterchange(j, f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkResolve(b *testing.B) {
	for _, f := range formats {
		b.Run(f.String(), func(b *testing.B) {
			stored, err := registry.MakeJobInterchange(benchmarkSample(), f)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := stored.Resolve(f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
