package benchmarks

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue"
)

// newMongoDBQueue returns a queue in a database, without starting it.
func newMongoDBQueue(tb testing.TB, uri, database string, workers int) amboy.RetryableQueue {
	q, err := queue.NewMongoDBQueue(tb.Context(), queue.MongoDBQueueOptions{
		DB:         &queue.MongoDBOptions{URI: uri, DB: database, Collection: "benchmark", CheckWaitUntil: true, CheckDispatchBy: true},
		NumWorkers: &workers,
	})
	require.NoError(tb, err)
	return q
}

// BenchmarkMongoDBDrain measures how many no-op jobs a queue in a MongoDB accepts, 1,000 at a
// time, and runs per second, from the first Put to the last Run, and what they cost the server.
func BenchmarkMongoDBDrain(b *testing.B) {
	const jobs, batch = 10_000, 1000
	for _, workers := range []int{8, 64} {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) {
			benchmarkMongoDB(b, jobs, workers, func(q amboy.Queue) {
				running := newCountdown(jobs)
				run := func(*storedTask) { running.run() }
				runStored.Store(&run)
				for range jobs / batch {
					require.NoError(b, q.PutMany(b.Context(), newStoredTasks(batch)))
				}
				<-running.done
			})
		})
	}
}

// BenchmarkMongoDBPut measures how many jobs one goroutine puts per second, one at a time, in a
// queue in a MongoDB, and what they cost the server.
func BenchmarkMongoDBPut(b *testing.B) {
	const jobs = 1000
	benchmarkMongoDB(b, jobs, 0, func(q amboy.Queue) {
		for range jobs {
			put(b, q, newStoredTask())
		}
	})
}

// BenchmarkMongoDBRetry measures how many jobs that fail once and are retried pass through a queue
// in a MongoDB per second, and what they cost the server.
func BenchmarkMongoDBRetry(b *testing.B) {
	const jobs = 2000
	for _, workers := range []int{8, 64} {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) {
			benchmarkMongoDB(b, jobs, workers, func(q amboy.Queue) {
				succeeding.Add(jobs)
				made := make([]amboy.Job, jobs)
				for i := range made {
					j := newFailOnce()
					j.SetID(strconv.Itoa(i))
					made[i] = j
				}
				require.NoError(b, q.PutMany(b.Context(), made))
				succeeding.Wait()
			})
		})
	}
}

// benchmarkMongoDB measures the jobs per second of a queue in an empty database, and the processor
// time of a real server for each of them. If workers is 0, the queue does not run its jobs.
func benchmarkMongoDB(b *testing.B, jobs, workers int, use func(amboy.Queue)) {
	var took samples
	var cost time.Duration
	for b.Loop() {
		d := mongotest.Open(b)
		q := newMongoDBQueue(b, d.URI(), d.Database(), max(workers, 1))
		if workers > 0 {
			start(b, q)
		}
		runtime.GC()
		before := serverTime(b, d)
		begin := time.Now()
		use(q)
		took = append(took, time.Since(begin))
		q.Close(b.Context()) // which writes the last ends
		cost += serverTime(b, d) - before
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took.rate(jobs), "jobs/s")
	if cost > 0 {
		b.ReportMetric(cost.Seconds()*1000/float64(jobs*b.N), "server-ms/job")
	}
}

// serverTime returns the processor time that a real server on Linux has used, and 0 for others.
func serverTime(b *testing.B, d *mongotest.Deployment) time.Duration {
	b.Helper()
	if !d.IsReal() {
		return 0
	}
	var status struct {
		Extra struct {
			User   int64 `bson:"user_time_us"`
			System int64 `bson:"system_time_us"`
		} `bson:"extra_info"`
	}
	err := d.Client().Database("admin").RunCommand(b.Context(), bson.M{"serverStatus": 1}).Decode(&status)
	require.NoError(b, err)
	return time.Duration(status.Extra.User+status.Extra.System) * time.Microsecond
}

// BenchmarkMongoDBIdleLatency measures the time from Put to the start of Run in an idle queue
// in a MongoDB, for jobs that this process puts, and for jobs that another process puts.
func BenchmarkMongoDBIdleLatency(b *testing.B) {
	for name, measure := range map[string]func(*testing.B, *mongotest.Deployment, int) samples{
		"same-process":  mongoDBLatency,
		"other-process": mongoDBLatencyOfAnother,
	} {
		b.Run(name, func(b *testing.B) {
			const jobs = 100
			var took samples
			for b.Loop() {
				took = append(took, measure(b, mongotest.Open(b), jobs)...)
			}
			b.ReportMetric(0, "ns/op")
			took.reportLatency(b, "")
		})
	}
}

// mongoDBLatency measures the latency of one job after the other.
func mongoDBLatency(b *testing.B, d *mongotest.Deployment, jobs int) (took samples) {
	latency := make(chan time.Duration, 1)
	run := func(t *storedTask) { latency <- t.sinceMade() }
	runStored.Store(&run)
	q := start(b, newMongoDBQueue(b, d.URI(), d.Database(), 8))
	defer q.Close(b.Context())
	for range jobs {
		idleDurable()
		put(b, q, newStoredTask())
		took = append(took, <-latency)
	}
	return took
}

// mongoDBLatencyOfAnother is mongoDBLatency for jobs that a child process puts.
func mongoDBLatencyOfAnother(b *testing.B, d *mongotest.Deployment, jobs int) (took samples) {
	latency := make(chan time.Duration, 1)
	run := func(t *storedTask) { latency <- t.sinceMade() }
	runStored.Store(&run)
	q := start(b, newMongoDBQueue(b, d.URI(), d.Database(), 8))
	defer q.Close(b.Context())

	process := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestPutForOtherProcessOnMongoDB$")
	process.Env = append(os.Environ(), uriVariable+"="+d.URI(), databaseVariable+"="+d.Database())
	process.Stderr = os.Stderr
	orders, err := process.StdinPipe()
	require.NoError(b, err)
	require.NoError(b, process.Start())
	for range jobs {
		idleDurable()
		_, err = fmt.Fprintln(orders)
		require.NoError(b, err)
		took = append(took, <-latency)
	}
	require.NoError(b, orders.Close())
	require.NoError(b, process.Wait())
	return took
}

// The environment variables with the database of the child process that puts jobs.
const (
	uriVariable      = "AMBOY_BENCHMARKS_MONGODB_URI"
	databaseVariable = "AMBOY_BENCHMARKS_MONGODB_DATABASE"
)

// TestPutForOtherProcessOnMongoDB is the child process. It puts a job for each line that it
// reads.
func TestPutForOtherProcessOnMongoDB(t *testing.T) {
	uri := os.Getenv(uriVariable)
	if uri == "" {
		t.Skip("it is run by a benchmark, in a process of its own")
	}
	q := newMongoDBQueue(t, uri, os.Getenv(databaseVariable), 1) // not started: it runs no job
	defer q.Close(t.Context())
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		put(t, q, newStoredTask())
	}
}
