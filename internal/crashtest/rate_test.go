package crashtest_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
)

var (
	rateTime = flag.Duration("crashtest.rate", 0, "how long to measure a rate; 0 does not measure it")
	rateOf   = flag.String("crashtest.rate-of", "queue", "whose rate: queue or type")
)

const (
	// ratedProcesses is the number of processes that share a rate, and ratedPerSecond the rate.
	ratedProcesses = 8
	ratedPerSecond = 100
	// ratedVariable makes a process of these tests run the jobs of a rated queue.
	ratedVariable = "CRASHTEST_RATED"
	// saysStarted is the beginning of the line that a rated job prints.
	saysStarted = "started: "
)

// ratedJob prints when it starts.
type ratedJob struct {
	job.Base `bson:"job_base" json:"job_base"`
}

var ratedType = amboy.JobType{Name: "crashtest-rated", Version: 1}

func init() {
	registry.AddJobType(ratedType.Name, func() amboy.Job { return &ratedJob{Base: job.Base{JobType: ratedType}} })
}

func (j *ratedJob) Run(context.Context) {
	fmt.Println(saysStarted + strconv.FormatInt(time.Now().UnixNano(), 10))
	j.MarkComplete()
}

// TestRatedProcess is a process that runs jobs until its standard input is closed.
func TestRatedProcess(t *testing.T) { runUntilClosed(t, ratedVariable, workers, 5*time.Second) }

// runUntilClosed runs the jobs of the store that an environment variable contains, until the
// standard input of the process is closed.
func runUntilClosed(t *testing.T, variable string, atOnce int, lease time.Duration) {
	t.Helper()
	config := os.Getenv(variable)
	if config == "" {
		t.Skip("it is run by other tests")
	}
	var s store
	require.NoError(t, json.Unmarshal([]byte(config), &s))
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: s.open(t), CloseDriver: true, NumWorkers: atOnce, LockTimeout: lease})
	require.NoError(t, err)
	require.NoError(t, q.Start(t.Context()))
	_, err = io.ReadAll(os.Stdin)
	require.NoError(t, err)
	q.Close(t.Context())
}

// TestRateHoldsWhileProcessesComeAndGo measures how many jobs start per second. Every second a
// process leaves, half of them killed, and another one comes.
func TestRateHoldsWhileProcessesComeAndGo(t *testing.T) {
	if *rateTime == 0 {
		t.Skip("-crashtest.rate is not set")
	}
	onEachStore(t, func(t *testing.T, newStore func(t *testing.T) store) {
		s := newStore(t)
		putRated(t, s, ratedPerSecond*int(rateTime.Seconds()+30))
		config, err := json.Marshal(s)
		require.NoError(t, err)
		var live, gone []*process
		start := func() {
			p, startErr := startProcess(t, fmt.Sprint("process ", len(live)+len(gone)), "TestRatedProcess", ratedVariable+"="+string(config), nil)
			require.NoError(t, startErr)
			t.Cleanup(p.kill)
			live = append(live, p)
		}
		for range ratedProcesses {
			start()
		}
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for i := range int(rateTime.Seconds()) + 2 {
			<-every.C
			at := rand.IntN(len(live))
			leaves := live[at]
			live, gone = slices.Delete(live, at, at+1), append(gone, leaves)
			if i%2 == 0 {
				leaves.kill()
			} else {
				require.NoError(t, leaves.stdin.Close())
			}
			start()
		}
		var starts []time.Duration
		for _, p := range slices.Concat(live, gone) {
			p.kill()
			starts = append(starts, p.starts()...)
		}
		checkRate(t, starts)
	})
}

// putRated puts jobs into a queue with a rate, or of a type with one.
func putRated(t *testing.T, s store, n int) {
	t.Helper()
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: s.open(t), CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(context.Background())
	rate := &amboy.Rate{PerSecond: ratedPerSecond}
	if *rateOf == "type" {
		require.NoError(t, amboy.LimitType(t.Context(), q, ratedType.Name, amboy.TypeLimit{Rate: rate}))
	} else {
		require.NoError(t, amboy.SetRate(t.Context(), q, rate))
	}
	jobs := make([]amboy.Job, n)
	for i := range jobs {
		j := &ratedJob{Base: job.Base{JobType: ratedType}}
		j.SetID(fmt.Sprint("rated-", i))
		jobs[i] = j
	}
	for some := range slices.Chunk(jobs, 1000) {
		require.NoError(t, q.PutMany(t.Context(), some))
	}
}

// starts returns when the jobs of an ended process started.
func (p *process) starts() (all []time.Duration) {
	for line := range strings.Lines(p.output.String()) {
		at, is := strings.CutPrefix(strings.TrimSpace(line), saysStarted)
		if !is {
			continue
		}
		if n, err := strconv.ParseInt(at, 10, 64); err == nil { // else it was killed while it printed
			all = append(all, time.Duration(n))
		}
	}
	return all
}

// checkRate checks the starts from the second second on.
func checkRate(t *testing.T, starts []time.Duration) {
	t.Helper()
	slices.Sort(starts)
	require.NotEmpty(t, starts)
	from := starts[0] + time.Second
	seconds := make([]int, int(rateTime.Seconds()))
	sum := 0
	for _, at := range starts {
		if i := int((at - from) / time.Second); at >= from && i < len(seconds) {
			seconds[i]++
			sum++
		}
	}
	most, first := 0, 0
	for i, at := range starts { // the second that ends with each start
		for at-starts[first] >= time.Second {
			first++
		}
		if starts[first] >= from {
			most = max(most, i-first+1)
		}
	}
	mean := float64(sum) / float64(len(seconds))
	t.Logf("%d processes, rate %d/s, %s: %.2f starts/s; in a second %d to %d, in any second at most %d",
		ratedProcesses, ratedPerSecond, *rateTime, mean, slices.Min(seconds), slices.Max(seconds), most)
	t.Logf("starts by second: %v", seconds)
	assert.InDelta(t, ratedPerSecond, mean, 2)
	assert.LessOrEqual(t, slices.Max(seconds), 110)
}
