package pinlater_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/mongodb/grip"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
)

// The tests of this file are the lines of the checklist of the interface, in its order. That of
// the second line is in clients_test.go, that of the last in the tests of the command.

const (
	pending    = wire.PinLaterJobState_PENDING
	inProgress = wire.PinLaterJobState_IN_PROGRESS
	done       = wire.PinLaterJobState_SUCCEEDED
	gaveUp     = wire.PinLaterJobState_FAILED
)

var noOptions = pinlater.Options{}

// Messages as bytes.
const (
	handshake      = "80010001 0000001b 5f5f63616e5f5f66696e61676c655f5f74726163655f5f76335f5f 00000000 00"
	getQueueNames  = "80010001 0000000d 67657451756575654e616d6573 00000007 0c0001 0b0001 00000004 74657374 00 00"
	oldQueueNames  = "0000000d 67657451756575654e616d6573 01 00000007 0c0001 0b0001 00000004 74657374 00 00"
	withoutSource  = "80010001 0000000d 67657451756575654e616d6573 00000007 0c0001 00 00"
	withoutContext = "80010001 0000000d 67657451756575654e616d6573 00000007 00"
	mailQueueNames = "80010002 0000000d 67657451756575654e616d6573 00000007 0e0000 0b 00000001 00000004 6d61696c 00"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	require.NoError(t, err)
	return data
}

// exchange sends a request, and returns the reply with its length.
func exchange(t *testing.T, conn net.Conn, request []byte) []byte {
	t.Helper()
	_, err := conn.Write(request)
	require.NoError(t, err)
	header := make([]byte, 4)
	_, err = io.ReadFull(conn, header)
	require.NoError(t, err)
	size, err := strconv.ParseUint(hex.EncodeToString(header), 16, 32)
	require.NoError(t, err)
	reply := make([]byte, size)
	_, err = io.ReadFull(conn, reply)
	require.NoError(t, err)
	return append(header, reply...)
}

func TestLine1AFinagleHandshakeGetsAnExceptionAndTheConnectionServesCalls(t *testing.T) {
	f := overTCP(t, noOptions)
	conn := f.dial()
	reply := exchange(t, conn, framed(unhex(t, handshake)))
	want := "80010003 0000001b 5f5f63616e5f5f66696e61676c655f5f74726163655f5f76335f5f 00000000"
	assert.Equal(t, unhex(t, want), reply[4:4+len(unhex(t, want))])
	assert.Contains(t, string(reply), "Invalid method name: '__can__finagle__trace__v3__'")
	assert.Equal(t, unhex(t, "080002 00000001 00"), reply[len(reply)-8:])
	assert.Equal(t, framed(unhex(t, mailQueueNames)), exchange(t, conn, framed(unhex(t, getQueueNames))))
}

func TestLine3ARequestWithoutSourceGetsType7AndTheConnectionLivesOn(t *testing.T) {
	f := overTCP(t, noOptions)
	conn := f.dial()
	for request, kind := range map[string]string{withoutSource: "00000007", withoutContext: "00000006"} {
		reply := exchange(t, conn, framed(unhex(t, request)))
		assert.Equal(t, unhex(t, "80010003"), reply[4:8])
		assert.Equal(t, unhex(t, "080002"+kind+"00"), reply[len(reply)-8:])
	}
	assert.Equal(t, framed(unhex(t, mailQueueNames)), exchange(t, conn, framed(unhex(t, getQueueNames))))
}

func TestLine4CreateQueueChecksTheName(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		for _, name := range []string{"a-b", "", "a b", "ä"} {
			f.hasCode(f.client.CreateQueue(f.ctx, test, name), wire.ErrorCode_QUEUE_NAME_INVALID)
		}
		f.createQueue(mail)
		f.createQueue(strings.Repeat("q", 58))
		f.hasCode(f.client.CreateQueue(f.ctx, test, strings.Repeat("q", 59)), wire.ErrorCode_QUEUE_NAME_TOO_LONG)
		names, err := f.client.GetQueueNames(f.ctx, test)
		require.NoError(f, err)
		assert.ElementsMatch(f, []string{mail, strings.Repeat("q", 58)}, names)
	})
}

func TestLine5DeleteQueueNeedsThePassword(t *testing.T) {
	assert.Equal(t, "63b747ec220ad5b796386abf1a12a2b046201537078df846e5e433bd5e46601b", pinlater.PasswordHash("secret"))
	none := overTCP(t, noOptions)
	for _, password := range []string{"", "secret"} {
		none.hasCode(none.client.DeleteQueue(none.ctx, test, mail, password), wire.ErrorCode_PASSWORD_INVALID)
	}
	onEach(t, pinlater.Options{AdminPasswordHash: pinlater.PasswordHash("secret")}, func(f *fixture) {
		for _, password := range []string{"", "wrong"} {
			f.hasCode(f.client.DeleteQueue(f.ctx, test, mail, password), wire.ErrorCode_PASSWORD_INVALID)
		}
		all := f.enqueue(newJob("a"), newJob("b"), newJob("c"), later(newJob("d"), time.Now().Add(time.Hour)))
		f.dequeue(1)
		ended := f.dequeue(1)
		for d := range ended.Jobs {
			f.ack(succeeded(d))
		}
		for range 2 {
			require.NoError(f, f.client.DeleteQueue(f.ctx, test, mail, "secret"))
		}
		_, err := f.client.DequeueJobs(f.ctx, test, dequeueRequest(1))
		f.hasCode(err, wire.ErrorCode_QUEUE_NOT_FOUND)
		f.createQueue(mail)
		assert.Empty(f, f.lookup(all...))
		for _, state := range []wire.PinLaterJobState{pending, inProgress, done, gaveUp} {
			assert.Equal(f, 0, f.count(state))
		}
	})
}

func TestLine6EnqueueReturnsADescriptorForEachJobInOrder(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		var jobs []*wire.PinLaterJob
		for i := range 100 {
			jobs = append(jobs, jobOf(int8(i%3+1), strconv.Itoa(i)))
		}
		descriptors := f.enqueue(jobs...)
		found := f.lookup(descriptors...)
		known := map[string]bool{}
		for i, d := range descriptors {
			assert.Equal(f, strconv.Itoa(i), string(found[d].Body))
			parts := strings.Split(d, ":")
			require.Len(f, parts, 4)
			assert.Equal(f, []string{mail, "s1", fmt.Sprintf("p%d", i%3+1)}, parts[:3])
			known[parts[3]] = true
		}
		assert.Len(f, known, 100)
	})
}

func TestLine7EnqueueOfBadJobsStoresNone(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		for _, priority := range []int8{0, 4, -1} {
			_, err := f.tryEnqueue(mail, newJob("a"), jobOf(priority, "b"), newJob("c"))
			f.hasCode(err, wire.ErrorCode_PRIORITY_NOT_SUPPORTED)
			assert.Contains(f, err.Error(), strconv.Itoa(int(priority)))
		}
		_, err := f.tryEnqueue("none", newJob("a"))
		f.hasCode(err, wire.ErrorCode_QUEUE_NOT_FOUND)
		assert.Contains(f, err.Error(), "Queue not found: none")
		_, err = f.tryEnqueue(mail)
		f.hasType(err, thrift.INTERNAL_ERROR)
		assert.Equal(f, 0, f.count(pending))
	})
}

func TestLine8AnyBytesComeBack(t *testing.T) {
	onAll(t, noOptions, func(f *fixture) {
		var all []byte
		for b := range 256 {
			all = append(all, byte(b))
		}
		bodies := []string{"", "\x00", "\xff\xfe\x00ä", string(all), strings.Repeat("x", 1<<20)}
		for _, body := range bodies {
			d := f.put(body)
			assert.Equal(f, body, string(f.info(d).Body))
			assert.Equal(f, body, f.dequeueOne())
		}
	})
}

func TestLine9PrioritiesAreStrict(t *testing.T) {
	onAll(t, noOptions, func(f *fixture) {
		for range 2 {
			f.enqueue(jobOf(3, "3"), jobOf(2, "2"), jobOf(1, "1"))
			if f.count(inProgress) == 0 {
				for _, want := range []string{"1", "2", "3"} {
					assert.Equal(f, want, f.dequeueOne())
				}
			}
		}
		assert.Len(f, f.dequeue(2).Jobs, 2)
		assert.Equal(f, "3", f.dequeueOne())
	})
}

func TestLine10ADequeueThatFindsNothingHasNeitherMap(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		r := f.dequeue(1)
		assert.Nil(f, r.Jobs)
		assert.Nil(f, r.JobMetadata)
		for _, limit := range []int32{0, -1} {
			_, err := f.client.DequeueJobs(f.ctx, test, dequeueRequest(limit))
			f.hasType(err, thrift.INTERNAL_ERROR)
		}
		blank := dequeueRequest(1)
		blank.QueueName = " "
		_, err := f.client.DequeueJobs(f.ctx, test, blank)
		f.hasType(err, thrift.INTERNAL_ERROR)
	})
}

func TestLine11MetadataCountsAttemptsAndADryRunChangesNothing(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		d := f.put("a")
		dry := dequeueRequest(1)
		dry.DryRun = true
		for _, remaining := range []int32{2, 1} {
			for range 2 {
				r, err := f.client.DequeueJobs(f.ctx, test, dry)
				require.NoError(f, err)
				assert.Equal(f, "a", string(r.Jobs[d]))
				assert.Equal(f, []int32{2, remaining}, numbersOf(r.JobMetadata[d]))
				f.hasState(d, pending, remaining)
			}
			r := f.dequeue(1)
			assert.Equal(f, []int32{2, remaining}, numbersOf(r.JobMetadata[d]))
			f.hasState(d, inProgress, remaining)
			f.ack(failed(d))
		}
		f.hasState(d, gaveUp, 0)
	})
}

func numbersOf(m *wire.PinLaterDequeueMetadata) []int32 {
	return []int32{m.GetAttemptsAllowed(), m.GetAttemptsRemaining()}
}

func TestLine12DequeueWithAcksEndsTheJobsOfThePreviousCall(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		f.enqueue(newJob("1"), newJob("2"), newJob("3"), newJob("4"), newJob("5"))
		var before []string
		for _, want := range []struct{ dequeued, acked, done int }{{2, 0, 0}, {2, 2, 2}, {1, 2, 4}, {0, 1, 5}} {
			r := dequeueRequest(2)
			r.JobAckRequest = succeeded(before...)
			require.Len(f, before, want.acked)
			got, err := f.client.DequeueJobs(f.ctx, test, r)
			require.NoError(f, err)
			before = slices.Collect(maps.Keys(got.Jobs))
			assert.Len(f, before, want.dequeued)
			assert.Equal(f, []int{want.dequeued, want.done}, []int{f.count(inProgress), f.count(done)})
		}
	})
}

func TestLine13AFailedAckWithDelayIsNotDequeuedBefore(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		d := f.put("a")
		f.dequeue(1)
		r := failed(d)
		r.JobsFailed[0].RetryDelayMillis = 2000
		at := time.Now()
		f.ack(r)
		info := f.info(d)
		assert.Equal(f, at.Add(2*time.Second).UnixMilli(), info.GetRunAfterTimestampMillis())
		assert.Equal(f, at.UnixMilli(), info.CreatedAtTimestampMillis)
		time.Sleep(1990 * time.Millisecond)
		assert.Empty(f, f.dequeue(1).Jobs)
		time.Sleep(20 * time.Millisecond)
		assert.Equal(f, "a", f.dequeueOne())
	})
}

func TestLine14FailedAcksUseUpTheAttempts(t *testing.T) {
	onAll(t, noOptions, func(f *fixture) {
		d := f.enqueue(allowing(newJob("a"), 3))[0]
		f.ack(failed(d)) // it is PENDING
		f.hasState(d, pending, 3)
		for remaining := int32(3); remaining > 0; remaining-- {
			f.hasState(d, pending, remaining)
			assert.Equal(f, "a", f.dequeueOne())
			f.ack(failed(d))
		}
		f.hasState(d, gaveUp, 0)
		assert.Contains(f, f.info(d).GetClaimDescriptor(), ":test:")
		f.ack(failed(d))
		f.ack(succeeded(d))
		f.hasState(d, gaveUp, 0)
	})
}

func TestLine15AcksOfUnknownAndForeignJobsHitNothing(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		f.createQueue("other")
		d := f.put("a")
		f.dequeue(1)
		f.ack(succeeded("mail:s1:p1:999999"))
		f.ack(succeeded(strings.Replace(d, "p1", "p2", 1)))
		f.ack(succeeded(strings.Replace(d, mail, "other", 1)))
		foreign := succeeded(d)
		foreign.QueueName = "other"
		f.ack(foreign)
		for _, bad := range []string{"x", "mail:s2:p1:1", "mail:s1:p:1", "mail:s1:p1:x", "mail:s1:p1:1:2", "::::", ":::"} {
			f.hasCode(f.client.AckDequeuedJobs(f.ctx, test, succeeded(bad)), wire.ErrorCode_UNKNOWN)
		}
		none := succeeded(d)
		none.QueueName = "none"
		f.hasCode(f.client.AckDequeuedJobs(f.ctx, test, none), wire.ErrorCode_QUEUE_NOT_FOUND)
		f.hasState(d, inProgress, 2)
		f.ack(succeeded(strings.Replace(d, ":s1:p1:", ":x1:y1:", 1)))
		f.hasState(d, done, 2)
	})
}

func TestLine16AClaimTimesOutUnlessThereIsACheckpoint(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		d := f.put("a")
		for _, after := range []wire.PinLaterJobState{pending, gaveUp} {
			assert.Equal(f, "a", f.dequeueOne())
			for range 2 {
				f.sleep(599 * time.Second)
				assert.Equal(f, inProgress, f.info(d).JobState)
				f.checkpoint("test", checkpointOf(d))
			}
			f.sleep(660 * time.Second) // a claim that has timed out is noticed within half a minute
			assert.Equal(f, after, f.info(d).JobState)
			assert.Equal(f, map[wire.PinLaterJobState]int32{pending: 1, gaveUp: 0}[after], f.info(d).AttemptsRemaining)
		}
		assert.Contains(f, f.info(d).GetClaimDescriptor(), ":test:")
		assert.Equal(f, 1, f.count(gaveUp))
	})
}

func checkpointOf(descriptor string) *wire.PinLaterCheckpointJobRequest {
	r := wire.NewPinLaterCheckpointJobRequest()
	r.JobDescriptor = descriptor
	return r
}

func (f *fixture) checkpoint(source string, requests ...*wire.PinLaterCheckpointJobRequest) {
	f.Helper()
	require.NoError(f, f.client.CheckpointJobs(f.ctx, from(source), &wire.PinLaterCheckpointJobsRequest{QueueName: mail, Requests: requests}))
}

func TestLine17ACheckpointKeepsStateAndClaim(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		d := f.put("a")
		text := "b"
		change := checkpointOf(d)
		change.PrependCustomStatus = &text
		unchanged := func() {
			f.Helper()
			before := f.info(d)
			time.Sleep(time.Second)
			for _, source := range []string{"test", "TEST", "other", "t_st", "%"} {
				if source != "test" || before.JobState != inProgress {
					f.checkpoint(source, change)
				}
			}
			assert.Equal(f, before, f.info(d))
		}
		unchanged()
		f.dequeue(1)
		unchanged()
		before := f.info(d)
		time.Sleep(time.Second)
		for _, source := range []string{"test", "es", ""} {
			f.checkpoint(source, checkpointOf(d))
			info := f.info(d)
			assert.Equal(f, time.Now().UnixMilli(), info.GetRunAfterTimestampMillis())
			assert.Equal(f, time.Now().UnixMilli(), info.GetUpdatedAtTimestampMillis())
			assert.Equal(f, before.ClaimDescriptor, info.ClaimDescriptor)
			assert.Equal(f, inProgress, info.JobState)
			time.Sleep(time.Second)
		}
		f.ack(succeeded(d))
		unchanged()
	})
}

func TestLine18ACheckpointSetsBodyAttemptsAndStatus(t *testing.T) {
	onAll(t, noOptions, func(f *fixture) {
		job := newJob("old")
		job.CustomStatus = "a"
		d := f.enqueue(job)[0]
		f.dequeue(1)
		f.ack(failed(d))
		f.dequeue(1)
		body, text, attempts := "new\xff\x00", "b", int32(7)
		r := checkpointOf(d)
		r.NewBody_, r.PrependCustomStatus, r.NumOfAttemptsAllowed = &body, &text, &attempts
		f.checkpoint("test", r)
		info := f.info(d)
		assert.Equal(f, body, string(info.Body))
		assert.Equal(f, []int32{7, 7}, []int32{info.AttemptsAllowed, info.AttemptsRemaining})
		assert.Equal(f, "ba", info.CustomStatus)

		back := checkpointOf(d)
		back.MoveToPending = true
		f.checkpoint("test", back)
		info = f.info(d)
		assert.Equal(f, pending, info.JobState)
		assert.Nil(f, info.ClaimDescriptor)
		assert.Equal(f, []int32{7, 7}, []int32{info.AttemptsAllowed, info.AttemptsRemaining})

		assert.Equal(f, body, f.dequeueOne())
		at := time.Now().Add(time.Hour).UnixMilli()
		back.RunAfterTimestampMillis = &at
		f.checkpoint("test", back)
		assert.Equal(f, at, f.info(d).GetRunAfterTimestampMillis())
		assert.Empty(f, f.dequeue(1).Jobs)
		assert.Equal(f, 0, f.count(pending))
	})
}

func TestLine19TheCustomStatusIsCut(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		job := newJob("a")
		job.CustomStatus = "*"
		d := f.enqueue(job)[0]
		f.dequeue(1)
		r := succeeded(d)
		r.JobsSucceeded[0].AppendCustomStatus = strings.Repeat("-", 5000)
		f.ack(r)
		assert.Equal(f, "*"+strings.Repeat("-", 4999), f.info(d).CustomStatus)
	})
}

func TestLine20LookupLeavesUnknownJobsOut(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		d := f.put("a")
		assert.Len(f, f.lookup(d, "mail:s1:p1:999", "none:s1:p1:1", strings.Replace(d, "p1", "p2", 1)), 1)
		assert.Nil(f, f.info(d).ClaimDescriptor)
		f.dequeue(1)
		r := wire.NewPinLaterLookupJobRequest()
		r.JobDescriptors = []string{d}
		found, err := f.client.LookupJobs(f.ctx, test, r)
		require.NoError(f, err)
		assert.Nil(f, found[d].Body)
		assert.Contains(f, found[d].GetClaimDescriptor(), ":test:")
		assert.Empty(f, found[d].CustomStatus)
		assert.NotZero(f, found[d].GetRunAfterTimestampMillis())
		assert.NotZero(f, found[d].GetUpdatedAtTimestampMillis())
		_, err = f.client.LookupJobs(f.ctx, test, &wire.PinLaterLookupJobRequest{JobDescriptors: []string{d, "x"}})
		f.hasCode(err, wire.ErrorCode_UNKNOWN)
		assert.Empty(f, f.lookup())
	})
}

func TestLine21CountAndScanSplitAtNow(t *testing.T) {
	onAll(t, noOptions, func(f *fixture) {
		var jobs []*wire.PinLaterJob
		for range 20 {
			jobs = append(jobs, jobOf(1, "due"))
		}
		for range 5 {
			jobs = append(jobs, jobOf(3, "due"))
		}
		for range 15 {
			jobs = append(jobs, later(jobOf(2, "future"), time.Now().Add(time.Hour)))
		}
		f.enqueue(jobs...)
		two := int8(2)
		for _, future := range []bool{false, true} {
			want := map[bool][2]int{false: {0, 25}, true: {15, 15}}[future]
			c, s := countRequest(pending), scanRequest(pending)
			c.CountFutureJobs, s.ScanFutureJobs = future, future
			assert.Equal(f, want[1], f.countOf(c))
			assert.Len(f, f.scan(s), want[1])
			c.Priority, s.Priority = &two, &two
			assert.Equal(f, want[0], f.countOf(c))
			assert.Len(f, f.scan(s), want[0])
			one := int8(1)
			c.Priority, s.Priority = &one, &one
			want[0] = map[bool]int{false: 20, true: 0}[future]
			assert.Equal(f, want[0], f.countOf(c))
			assert.Len(f, f.scan(s), want[0])
		}
	})
}

func TestLine22ScanIsLatestFirst(t *testing.T) {
	t.Run("the continuation is written out", testContinuation)
	onEach(t, noOptions, func(f *fixture) {
		now := time.Now()
		all := f.enqueue(later(jobOf(1, "a"), now.Add(2*time.Hour)), later(jobOf(2, "b"), now.Add(3*time.Hour)), later(jobOf(3, "c"), now.Add(time.Hour)))
		r := scanRequest(pending)
		r.ScanFutureJobs = true
		assert.Equal(f, []string{all[1], all[0], all[2]}, f.scan(r))
		r.Limit = 2
		assert.Equal(f, []string{all[1], all[0]}, f.scan(r))
		for _, limit := range []int32{0, -1} {
			r.Limit = limit
			assert.Empty(f, f.scan(r))
		}
		r.Limit, r.Continuation = 1, "1"
		_, err := f.client.ScanJobs(f.ctx, test, r)
		f.hasCode(err, wire.ErrorCode_CONTINUATION_INVALID)
	})
}

// testContinuation compares bytes: a generated client can't tell an absent continuation from its default.
func testContinuation(t *testing.T) {
	t.Helper()
	f := overTCP(t, noOptions)
	request := "80010001 00000008 7363616e4a6f6273 00000001" + // scanJobs
		"0c0001 0b0001 00000004 74657374 00" +
		"0c0002 0b0001 00000004 6d61696c 080002 00000000 00 00"
	want := "80010002 00000008 7363616e4a6f6273 00000001 0c0000 0f0001 0c 00000000 0b0002 00000002 2d31 00 00"
	assert.Equal(t, framed(unhex(t, want)), exchange(t, f.dial(), framed(unhex(t, request))))
}

// framed puts the length before a message.
func framed(message []byte) []byte {
	return append([]byte{byte(len(message) >> 24), byte(len(message) >> 16), byte(len(message) >> 8), byte(len(message))}, message...)
}

func TestLine23ARegularExpressionIsFoundAnywhereInTheBody(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		for i := range 20 {
			f.put(fmt.Sprintf("job_body_%d", i))
		}
		for pattern, want := range map[string]int{"job_body_1.*": 11, "body_1": 11, "job_body_*": 20, "JOB": 0, "": 20, "_1$": 1} {
			c, s := countRequest(pending), scanRequest(pending)
			c.BodyRegexToMatch, s.BodyRegexToMatch = &pattern, &pattern
			assert.Equal(f, want, f.countOf(c), pattern)
			assert.Len(f, f.scan(s), want, pattern)
		}
		bad := countRequest(pending)
		pattern := "("
		bad.BodyRegexToMatch = &pattern
		_, err := f.client.GetJobCount(f.ctx, test, bad)
		f.hasCode(err, wire.ErrorCode_UNKNOWN)
	})
}

func (f *fixture) failAll(n int32) (descriptors []string) {
	f.Helper()
	for d := range f.dequeue(n).Jobs {
		descriptors = append(descriptors, d)
	}
	f.ack(failed(descriptors...))
	return descriptors
}

func TestLine24RetryFailedJobs(t *testing.T) {
	onAll(t, noOptions, func(f *fixture) {
		var jobs []*wire.PinLaterJob
		for range 20 {
			jobs = append(jobs, allowing(jobOf(1, "a"), 1))
		}
		for range 5 {
			jobs = append(jobs, allowing(jobOf(2, "b"), 1))
		}
		f.enqueue(jobs...)
		require.Len(f, f.failAll(25), 25)
		assert.Equal(f, 25, f.count(gaveUp))
		r := wire.NewPinLaterRetryFailedJobsRequest()
		r.QueueName, r.AttemptsToAllow, r.Limit = mail, 2, 15
		n, err := f.client.RetryFailedJobs(f.ctx, test, r)
		require.NoError(f, err)
		assert.Equal(f, int32(15), n)
		two := countRequest(gaveUp)
		priority := int8(2)
		two.Priority = &priority
		assert.Equal(f, 5, f.countOf(two))
		assert.Equal(f, 15, f.count(pending))
		again := f.failAll(25)
		require.Len(f, again, 15)
		info := f.info(again[0])
		assert.Equal(f, []int32{1, 1}, []int32{info.AttemptsAllowed, info.AttemptsRemaining})
		assert.Equal(f, pending, info.JobState)
		require.Len(f, f.failAll(25), 15)
		assert.Equal(f, 25, f.count(gaveUp))

		r = wire.NewPinLaterRetryFailedJobsRequest()
		r.QueueName = mail
		n, err = f.client.RetryFailedJobs(f.ctx, test, r)
		require.NoError(f, err)
		assert.Equal(f, int32(20), n)
	})
}

func TestLine25DeleteJobs(t *testing.T) {
	onAll(t, noOptions, func(f *fixture) {
		all := f.enqueue(newJob("a"), newJob("b"), newJob("b"), newJob("b"), jobOf(2, "b"), later(newJob("b"), time.Now().Add(time.Hour)))
		pattern := "b"
		remove := func(state wire.PinLaterJobState, limit int32) int {
			r := wire.NewPinLaterDeleteJobsRequest()
			r.QueueName, r.JobState, r.BodyRegexToMatch, r.Limit = mail, state, &pattern, limit
			n, err := f.client.DeleteJobs(f.ctx, test, r)
			require.NoError(f, err)
			return int(n)
		}
		assert.Equal(f, 0, remove(gaveUp, 10))
		assert.Equal(f, 1, remove(pending, 1))
		assert.Equal(f, 3, remove(pending, 10))
		found := f.lookup(all...)
		assert.Len(f, found, 2)
		assert.Contains(f, found, all[0])
		assert.Contains(f, found, all[4])

		d := f.put("b")
		f.dequeue(10)
		assert.Equal(f, 1, remove(inProgress, 10))
		f.ack(succeeded(d))
		assert.Empty(f, f.lookup(d))
	})
}

func TestLine26ARateLimitLends(t *testing.T) {
	config := filepath.Join(t.TempDir(), "queues.json")
	require.NoError(t, os.WriteFile(config, []byte(`{"queues":[{"name":"mail","queueConfig":{"maxJobsPerSecond":10,"more":1}}]}`), 0o600))
	inFakeTime(t, pinlater.Options{QueueConfigFile: config}, func(f *fixture) {
		d := f.put("a")
		assert.Len(f, f.dequeue(10).Jobs, 1)
		refused := dequeueRequest(1)
		refused.JobAckRequest = succeeded(d)
		_, err := f.client.DequeueJobs(f.ctx, test, refused)
		f.hasCode(err, wire.ErrorCode_DEQUEUE_RATE_LIMITED)
		assert.Contains(f, err.Error(), "Dequeue rate limit exceeded for queue: mail")
		f.hasState(d, inProgress, 2)
		time.Sleep(time.Second)
		f.dequeue(1000)
		time.Sleep(99 * time.Second)
		_, err = f.client.DequeueJobs(f.ctx, test, dequeueRequest(1))
		f.hasCode(err, wire.ErrorCode_DEQUEUE_RATE_LIMITED)
		time.Sleep(time.Second)
		f.dequeue(1)
	})
	servers := filepath.Join(t.TempDir(), "servers")
	var list strings.Builder
	for i := range 10 {
		fmt.Fprintf(&list, "host%d:9010\n\n", i)
	}
	require.NoError(t, os.WriteFile(servers, []byte(list.String()+"host0:9010\n"), 0o600))
	require.NoError(t, os.WriteFile(config, []byte(`{"queues":[{"name":"mail","queueConfig":{"maxJobsPerSecond":100}}]}`), 0o600))
	inFakeTime(t, pinlater.Options{QueueConfigFile: config, ServerSetFile: servers}, func(f *fixture) {
		f.dequeue(100)
		time.Sleep(9900 * time.Millisecond)
		_, err := f.client.DequeueJobs(f.ctx, test, dequeueRequest(1))
		f.hasCode(err, wire.ErrorCode_DEQUEUE_RATE_LIMITED)
		time.Sleep(200 * time.Millisecond)
		f.dequeue(1)
	})
}

func TestLine27AChangedLimitsFileIsInForceWithin15Seconds(t *testing.T) {
	config := filepath.Join(t.TempDir(), "queues.json")
	// The server may read the file at any time, so it is replaced in one step.
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(config+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(config+".new", config))
	}
	write(`{"queues":[]}`)
	inFakeTime(t, pinlater.Options{QueueConfigFile: config}, func(f *fixture) {
		passes := func() bool {
			_, err := f.client.DequeueJobs(f.ctx, test, dequeueRequest(1000))
			if err != nil {
				f.hasCode(err, wire.ErrorCode_DEQUEUE_RATE_LIMITED)
			}
			return err == nil
		}
		assert.True(f, passes())
		logs := send.MakeInternalLogger()
		before := grip.GetSender()
		require.NoError(f, grip.SetSender(logs))
		defer func() { require.NoError(f, grip.SetSender(before)) }()
		for _, step := range []struct {
			text   string
			isBad  bool
			passes [2]bool
		}{
			{`{"queues":[{"name":"mail","queueConfig":{"maxJobsPerSecond":0}}]}`, false, [2]bool{false, false}},
			{`{"queues":`, true, [2]bool{false, false}},
			{`{"queues":[{"name":"mail","queueConfig":{"maxJobsPerSecond":0.5}}]}`, false, [2]bool{true, false}},
			{`{"queues":[{"name":"mail","queueConfig":{}}]}`, false, [2]bool{false, false}},
			{`{"queues":[{"name":"mail"}]}`, true, [2]bool{false, false}},
			{`{"queues":[{"name":"mail","queueConfig":{}},{"name":"mail","queueConfig":{}}]}`, true, [2]bool{false, false}},
			{`{"queues":[],"more":1}`, true, [2]bool{false, false}},
			{`{"queues":[{"name":"other","queueConfig":{}}]}`, false, [2]bool{true, true}},
		} {
			write(step.text)
			time.Sleep(15 * time.Second)
			actual := [2]bool{passes(), passes()}
			assert.Equal(f, step.passes, actual, step.text)
			logged, isLogged := logs.GetMessageSafe()
			if assert.Equal(f, step.isBad, isLogged, step.text) && isLogged {
				assert.Contains(f, logged.Message.String(), "could not reload a file; what it said before stays in force")
				assert.Contains(f, logged.Message.String(), config)
			}
		}
	})
	for _, path := range []string{"none", config} {
		write(`{`)
		f := overTCP(t, noOptions)
		_, err := pinlater.New(f.group, f.dispatcher, pinlater.Options{QueueConfigFile: path})
		require.ErrorContains(t, err, path)
		_, err = pinlater.New(f.group, f.dispatcher, pinlater.Options{ServerSetFile: path})
		require.ErrorContains(t, err, path)
	}
}

func TestLine28EndedJobsAreKeptForTheirTimes(t *testing.T) {
	var defaults pinlater.Options
	require.NoError(t, defaults.Validate())
	assert.Equal(t, 24*time.Hour, defaults.KeepSucceeded)
	assert.Equal(t, 168*time.Hour, defaults.KeepFailed)
	// 195 hours of fake time take long: a minute stands for an hour.
	const hour = time.Minute
	inFakeTime(t, pinlater.Options{KeepSucceeded: 24 * hour, KeepFailed: 168 * hour}, func(f *fixture) {
		all := f.enqueue(newJob("a"), allowing(newJob("b"), 1), newJob("c"), later(newJob("d"), time.Now().Add(2000*hour)))
		f.dequeue(2)
		f.ack(succeeded(all[0]))
		f.ack(failed(all[1]))
		for _, step := range []struct {
			hours time.Duration
			left  int
		}{{23, 4}, {2, 3}, {168 - 26, 3}, {2, 2}, {25, 2}} {
			f.sleep(step.hours * hour)
			assert.Len(f, f.lookup(all...), step.left)
		}
	})
}

func TestLine29InDequeueOnlyEnqueueIsRefusedAndOtherCallsWork(t *testing.T) {
	onEach(t, pinlater.Options{AdminPasswordHash: pinlater.PasswordHash("secret")}, func(f *fixture) {
		d := f.put("a")
		f.server.SetDequeueOnly(true)
		_, err := f.tryEnqueue(mail, newJob("b"))
		f.hasCode(err, wire.ErrorCode_ENQUEUE_REJECTED)
		f.createQueue("more")
		assert.Equal(f, "a", f.dequeueOne())
		f.checkpoint("test", checkpointOf(d))
		f.ack(failed(d))
		f.dequeue(1)
		f.ack(failed(d))
		r := wire.NewPinLaterRetryFailedJobsRequest()
		r.QueueName = mail
		_, err = f.client.RetryFailedJobs(f.ctx, test, r)
		require.NoError(f, err)
		assert.Equal(f, 1, f.count(pending))
		assert.Len(f, f.scan(scanRequest(pending)), 1)
		assert.Equal(f, pending, f.info(d).JobState)
		names, err := f.client.GetQueueNames(f.ctx, test)
		require.NoError(f, err)
		assert.ElementsMatch(f, []string{mail, "more"}, names)
		remove := wire.NewPinLaterDeleteJobsRequest()
		remove.QueueName, remove.JobState = mail, pending
		n, err := f.client.DeleteJobs(f.ctx, test, remove)
		require.NoError(f, err)
		assert.Equal(f, int32(1), n)
		require.NoError(f, f.client.DeleteQueue(f.ctx, test, "more", "secret"))
		f.server.SetDequeueOnly(false)
		f.put("b")
	})
}
