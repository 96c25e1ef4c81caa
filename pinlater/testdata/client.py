"""Drives all calls of a PinLater server with a client that was generated from pinlater.thrift.

Usage: client.py GENERATED_DIRECTORY PORT
"""

import sys

sys.path.insert(0, sys.argv[1])

from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

from thrift_libs import PinLater
from thrift_libs.ttypes import (
    ErrorCode,
    PinLaterCheckpointJobRequest,
    PinLaterCheckpointJobsRequest,
    PinLaterDeleteJobsRequest,
    PinLaterDequeueRequest,
    PinLaterEnqueueRequest,
    PinLaterException,
    PinLaterGetJobCountRequest,
    PinLaterJob,
    PinLaterJobAckInfo,
    PinLaterJobAckRequest,
    PinLaterJobState,
    PinLaterLookupJobRequest,
    PinLaterRetryFailedJobsRequest,
    PinLaterScanJobsRequest,
    RequestContext,
)

transport = TTransport.TFramedTransport(TSocket.TSocket("127.0.0.1", int(sys.argv[2])))
client = PinLater.Client(TBinaryProtocol.TBinaryProtocol(transport))
transport.open()
me = RequestContext(source="python")
queue = "python"


def same(got, want, what):
    if got != want:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))


def fails(code, call, *args):
    try:
        call(*args)
    except PinLaterException as e:
        same(e.errorCode, code, "error code of " + e.message)
        return
    raise AssertionError("no error %d" % code)


def count(state):
    return client.getJobCount(me, PinLaterGetJobCountRequest(queueName=queue, jobState=state))


client.createQueue(me, queue)
same(client.getQueueNames(me), {queue}, "queues")
fails(ErrorCode.QUEUE_NAME_INVALID, client.createQueue, me, "a-b")

body = bytes(range(256))
jobs = [PinLaterJob(body=body, numAttemptsAllowed=1), PinLaterJob(body=b"two", priority=2, customStatus="new")]
descriptors = client.enqueueJobs(me, PinLaterEnqueueRequest(queueName=queue, jobs=jobs)).jobDescriptors
same(len(descriptors), 2, "descriptors")

got = client.dequeueJobs(me, PinLaterDequeueRequest(queueName=queue, limit=10))
same(got.jobs, {descriptors[0]: body, descriptors[1]: b"two"}, "bodies")
same(got.jobMetadata[descriptors[1]].attemptsRemaining, 2, "attempts remaining")
nothing = client.dequeueJobs(me, PinLaterDequeueRequest(queueName=queue, limit=10))
same((nothing.jobs, nothing.jobMetadata), (None, None), "maps of an empty reply")

checkpoint = PinLaterCheckpointJobRequest(jobDescriptor=descriptors[1], newBody="zwei", prependCustomStatus="very ")
client.checkpointJobs(me, PinLaterCheckpointJobsRequest(queueName=queue, requests=[checkpoint]))
acks = PinLaterJobAckRequest(
    queueName=queue,
    jobsSucceeded=[PinLaterJobAckInfo(jobDescriptor=descriptors[1], appendCustomStatus=" done")],
    jobsFailed=[PinLaterJobAckInfo(jobDescriptor=descriptors[0])],
)
client.ackDequeuedJobs(me, acks)
same([count(s) for s in (0, 1, 2, 3)], [0, 0, 1, 1], "counts")

info = client.lookupJobs(me, PinLaterLookupJobRequest(jobDescriptors=descriptors, includeBody=True))[descriptors[1]]
same((info.jobState, info.customStatus, info.body), (PinLaterJobState.SUCCEEDED, "very new done", b"zwei"), "job")
same(":python:" in info.claimDescriptor, True, "claim with the source")

same(client.retryFailedJobs(me, PinLaterRetryFailedJobsRequest(queueName=queue)), 1, "retried jobs")
scanned = client.scanJobs(me, PinLaterScanJobsRequest(queueName=queue, jobState=PinLaterJobState.PENDING))
same([j.jobDescriptor for j in scanned.scannedJobs], [descriptors[0]], "scanned jobs")
same(scanned.continuation, "-1", "continuation")
pattern = PinLaterDeleteJobsRequest(queueName=queue, jobState=PinLaterJobState.PENDING, bodyRegexToMatch="abc")
same(client.deleteJobs(me, pattern), 1, "deleted jobs")

fails(ErrorCode.PASSWORD_INVALID, client.deleteQueue, me, queue, "wrong")
client.deleteQueue(me, queue, "secret")
same(client.getQueueNames(me), set(), "queues after deleteQueue")
print("all calls work")
