package benchmarks

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// bulkTime must be a minute for the figure in the README.
var bulkTime = flag.Duration("bulk", 10*time.Second, "how long BenchmarkDurableBulkPuts puts jobs")

// bulkVariable is the environment variable that makes a child process of
// BenchmarkDurableBulkPuts put jobs until a time, in nanoseconds since 1970.
const bulkVariable = "AMBOY_BENCHMARKS_BULK_UNTIL"

// BenchmarkDurableBulkPuts measures the maximum size of the write-ahead log of a file, and the
// number of jobs put per second, while four processes put 1,000 jobs at a time.
func BenchmarkDurableBulkPuts(b *testing.B) {
	const processes = 4
	var jobs, peak int64
	var took time.Duration
	for b.Loop() {
		path := newDurableSetup(b, "NORMAL", nil).path
		d, err := sqlite.Open(b.Context(), sqlite.Options{Path: path}) // before the processes do
		require.NoError(b, err)
		require.NoError(b, d.Close(b.Context()))
		begin := time.Now()
		var running []*exec.Cmd
		var outputs []*strings.Builder
		for range processes {
			process := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestPutInBulk$", "-test.v")
			process.Env = append(os.Environ(), pathVariable+"="+path, fmt.Sprint(bulkVariable, "=", begin.Add(*bulkTime).UnixNano()))
			out := &strings.Builder{}
			process.Stdout, process.Stderr = out, os.Stderr
			require.NoError(b, process.Start())
			running, outputs = append(running, process), append(outputs, out)
		}
		for time.Since(begin) < *bulkTime {
			if info, err := os.Stat(path + "-wal"); err == nil {
				peak = max(peak, info.Size())
			}
			<-time.After(5 * time.Millisecond)
		}
		for i, process := range running {
			require.NoError(b, process.Wait())
			_, after, _ := strings.Cut(outputs[i].String(), "jobs put: ")
			n, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
			require.NoError(b, err)
			jobs += n
		}
		took += time.Since(begin)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
	b.ReportMetric(float64(jobs)/took.Seconds(), "jobs/s")
}

// TestPutInBulk is the child process.
func TestPutInBulk(t *testing.T) {
	until, err := strconv.ParseInt(os.Getenv(bulkVariable), 10, 64)
	if err != nil {
		t.Skip("it is run by a benchmark, in a process of its own")
	}
	q := newAmboyFile(t, 1, sqlite.Options{Path: os.Getenv(pathVariable)}) // not started: it runs no job
	defer q.Close(t.Context())
	jobs := 0
	for ; time.Now().UnixNano() < until; jobs += 1000 {
		require.NoError(t, q.PutMany(t.Context(), newStoredTasks(1000)))
	}
	fmt.Println("jobs put:", jobs)
}
