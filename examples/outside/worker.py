#!/usr/bin/env python3
"""A worker in Python, without dependencies. Use it as it is, or copy it.

    AMBOY_URL=http://localhost:8080 AMBOY_TOKEN=... python3 worker.py texts
"""
import http.client, json, os, signal, sys, threading, traceback, urllib.request

MAX_RESULT, MAX_TEXT, MAX_LINE, MAX_LINES = 1 << 20, 10_000, 2048, 100  # what the server accepts
UNANSWERED = (OSError, http.client.HTTPException, ValueError)  # what a call raises if it has no answer


class Permanent(Exception):
    """An error after which a job is not retried."""


class Canceled(Exception):
    """The job was canceled, or its lease was lost."""


class Job:
    def __init__(self, worker, leased):
        self.worker, self.stop, self.log_lines, self.at = worker, threading.Event(), [], None
        self.token, self.id, self.type, self.attempt = (leased[k] for k in ("token", "id", "type", "attempt"))
        self.args = leased.get("args")

    def progress(self, fraction, message=""):
        """Reports progress with the next heartbeat. Raises Canceled if the job must stop."""
        if not 0 <= fraction <= 1:
            raise ValueError("the fraction must be from 0 to 1 (is %r)" % fraction)
        self.at = {"fraction": fraction, "message": message[:MAX_LINE]}
        if self.stop.is_set():
            raise Canceled("stopped")

    def sleep(self, seconds):
        """Sleeps. Raises Canceled as soon as the job must stop."""
        if self.stop.wait(seconds):
            raise Canceled("stopped")

    def log(self, line):
        self.log_lines.append(line)

    def checkpoint(self, args):
        """Stores new arguments, with which every later run of the job begins."""
        self.worker.acknowledge({"token": self.token, "checkpoint": {"args": args}})

    def beat(self):
        lines, self.log_lines = self.log_lines, []
        beat = {"token": self.token, "log": [line[:MAX_LINE] for line in lines[-MAX_LINES:]]}
        if self.at:
            beat["progress"] = self.at
        return beat


class Worker:
    def __init__(self, url, queues, handlers, slots=2, lease=30.0, wait=5.0, token=None):
        self.url, self.queues, self.handlers, self.slots, self.lease, self.wait = url, queues, handlers, slots, lease, wait
        self.token, self.stopping, self.jobs = token, threading.Event(), {}
        self.name = "python-%d" % os.getpid()

    def call(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def acknowledge(self, ack):
        done = self.call("/v2/leases/acknowledge", {"acknowledge": [ack]})["acknowledged"][0]
        if not done["done"]:
            raise Canceled(done["problem"].get("detail", done["problem"]["title"]))

    def run_job(self, job):
        """Runs a job, sends the rest of its log, which an acknowledgement does not take, and returns its acknowledgement."""
        ack = self.run_handler(job)
        if job.log_lines:
            try:
                self.call("/v2/leases/heartbeat", {"heartbeats": [job.beat()]})
            except UNANSWERED as err:
                print("worker:", err, file=sys.stderr)
        return ack

    def run_handler(self, job):
        try:
            result = self.handlers[job.type](job)
            size = len(json.dumps(result, allow_nan=False))  # raises an error for a result that is not JSON
            if size > MAX_RESULT:
                raise Permanent("the result has %d bytes, and may have %d" % (size, MAX_RESULT))
            return {"token": job.token, "complete": {"result": result}}
        except Exception as err:
            error, stack = (str(err) or repr(err))[:MAX_TEXT], traceback.format_exc()[-MAX_TEXT:]
            return {"token": job.token, "fail": {"error": error, "stack": stack, "permanent": isinstance(err, Permanent)}}

    def slot(self):
        """Acknowledges the last job and leases the next one, in one call, until the worker stops."""
        acks, body = [], {"queues": self.queues, "types": list(self.handlers), "worker": self.name,
                          "wait": "%gs" % self.wait, "lease": "%gs" % self.lease}
        while acks or not self.stopping.is_set():
            try:
                if self.stopping.is_set():
                    self.call("/v2/leases/acknowledge", {"acknowledge": acks})
                    return
                answer = self.call("/v2/leases", dict(body, acknowledge=acks))
            except UNANSWERED as err:  # the acknowledgement is sent again
                print("worker:", err, file=sys.stderr)
                if self.stopping.wait(1):
                    return
                continue
            # An answer of 500 and above is about the server: send that acknowledgement again.
            acks = [a for a, told in zip(acks, answer.get("acknowledged", [])) if told.get("problem", {}).get("status", 0) >= 500]
            if acks or "problem" in answer:  # or nothing could be leased
                print("worker:", answer.get("problem", "an acknowledgement failed"), file=sys.stderr)
                self.stopping.wait(1)
            for leased in answer["jobs"]:
                job = self.jobs[leased["token"]] = Job(self, leased)
                acks.append({"token": job.token, "release": {}} if self.stopping.is_set() else self.run_job(job))
                del self.jobs[job.token]

    def heartbeats(self, ended):
        while not ended.wait(self.lease / 3):
            jobs = list(self.jobs.values())
            try:
                answers = self.call("/v2/leases/heartbeat", {"heartbeats": [j.beat() for j in jobs]})["heartbeats"]
            except UNANSWERED as err:
                print("worker:", err, file=sys.stderr)
                continue
            for job, answer in zip(jobs, answers):
                if answer["cancel"] or answer.get("problem", {}).get("status", 0) == 409:
                    job.stop.set()

    def run(self):
        """Runs jobs until stopping is set, and waits for the jobs that run then."""
        ended = threading.Event()
        slots = [threading.Thread(target=self.slot) for _ in range(self.slots)]
        beats = threading.Thread(target=self.heartbeats, args=(ended,))
        for thread in [beats] + slots:
            thread.start()
        for thread in slots:
            thread.join()
        ended.set()
        beats.join()


def count(job):
    """Counts words, slowly if that is asked for. It goes on where an earlier run stopped."""
    words = job.args["text"].split()
    job.log("python counts %d words" % len(words))
    for done in range(job.args.get("done", 0), len(words)):
        job.progress(done / len(words), "word %d of %d" % (done, len(words)))
        job.sleep(job.args.get("pause", 0))
    if job.args.get("fail") and job.attempt == 1:
        raise ValueError("the first attempt fails")
    if not words:
        raise Permanent("no words")
    return {"words": len(words), "by": "python"}


if __name__ == "__main__":
    worker = Worker(os.environ.get("AMBOY_URL", "http://localhost:8080"), sys.argv[1:] or ["texts"], {"count": count},
                    lease=float(os.environ.get("AMBOY_LEASE", "30")), wait=float(os.environ.get("AMBOY_WAIT", "5")),
                    token=os.environ.get("AMBOY_TOKEN"))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: worker.stopping.set())
    worker.run()
