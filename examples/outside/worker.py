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
    """A leased job: its id, type, attempt and args are what a handler reads."""

    def __init__(self, call, leased):
        self.call, self.log_lines, self.at = call, [], None
        self.token, self.id, self.type, self.attempt = (leased[k] for k in ("token", "id", "type", "attempt"))
        self.args, self.stop, self.ended = leased.get("args"), threading.Event(), threading.Event()

    def sleep(self, seconds):
        """Sleeps. Raises Canceled as soon as the job must stop."""
        if self.stop.wait(seconds):
            raise Canceled("stopped")

    def progress(self, fraction, message=""):
        """Reports progress with the next heartbeat. Raises Canceled if the job must stop."""
        if not 0 <= fraction <= 1:
            raise ValueError("the fraction must be from 0 to 1 (is %r)" % fraction)
        self.at = {"fraction": fraction, "message": message[:MAX_LINE]}
        self.sleep(0)

    def log(self, line):
        self.log_lines.append(line[:MAX_LINE])

    def beat(self):
        """Renews the lease, and sends the progress and the log."""
        lines, self.log_lines = self.log_lines, []
        try:
            beat = {"token": self.token, "progress": self.at, "log": lines[-MAX_LINES:]}
            told = self.call("/v2/leases/heartbeat", {"heartbeats": [beat]})["heartbeats"][0]
            if told["cancel"] or told.get("problem", {}).get("status") == 409:  # canceled, or the lease is lost
                self.stop.set()
        except UNANSWERED as err:
            print("worker:", err, file=sys.stderr)

    def beats(self, pause):
        while not self.ended.wait(pause):
            self.beat()


class Worker:
    def __init__(self, url, token, queues, handlers, lease=30.0, wait=5.0):
        self.url, self.handlers, self.lease, self.wait, self.stopping = url, handlers, lease, wait, threading.Event()
        self.headers = {"Content-Type": "application/json", "Authorization": "Bearer " + token}
        self.asked = {"queues": queues, "types": list(handlers), "worker": "python-%d" % os.getpid(),
                      "wait": "%gs" % wait, "lease": "%gs" % lease}

    def call(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), self.headers)
        with urllib.request.urlopen(request, timeout=self.wait + 30) as answer:
            return json.load(answer)

    def run_job(self, job):
        """Runs a job, and returns its acknowledgement."""
        threading.Thread(target=job.beats, args=(self.lease / 3,), daemon=True).start()
        try:
            result = self.handlers[job.type](job)
            size = len(json.dumps(result, allow_nan=False))  # raises an error for a result that is not JSON
            if size > MAX_RESULT:
                raise Permanent("the result has %d bytes, and may have %d" % (size, MAX_RESULT))
            return {"token": job.token, "complete": {"result": result}}
        except BaseException as err:  # such as SystemExit, which would end the thread
            error, stack = (str(err) or repr(err))[:MAX_TEXT], traceback.format_exc()[-MAX_TEXT:]
            return {"token": job.token, "fail": {"error": error, "stack": stack, "permanent": isinstance(err, Permanent)}}
        finally:
            job.ended.set()
            if job.log_lines:
                job.beat()  # an acknowledgement takes no log

    def slot(self):
        """Runs one job after the other. Each call acknowledges the last job and leases the next one."""
        acks = []
        while not self.stopping.is_set():
            try:
                answer = self.call("/v2/leases", {**self.asked, "acknowledge": acks})
                # A problem of 500 and above is about the server: that acknowledgement is sent again.
                acks = [a for a, told in zip(acks, answer.get("acknowledged", [])) if told.get("problem", {}).get("status", 0) >= 500]
                problem = answer.get("problem") or acks and "an acknowledgement failed"
            except UNANSWERED as err:
                answer, problem = {}, err
            if problem:
                print("worker:", problem, file=sys.stderr)
                self.stopping.wait(1)
            for leased in answer.get("jobs", []):
                acks.append({"token": leased["token"], "release": {}} if self.stopping.is_set() else self.run_job(Job(self.call, leased)))
        if acks:  # an error ends this thread, and the job is leased again
            self.call("/v2/leases/acknowledge", {"acknowledge": acks})

    def run(self, slots=2):
        """Runs jobs until stopping is set, and waits for the jobs that run then."""
        threads = [threading.Thread(target=self.slot) for _ in range(slots)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def count(job):
    """Counts words, slowly if that is asked for."""
    words = job.args["text"].split()
    job.log("python counts %d words" % len(words))
    for done in range(len(words)):
        job.progress(done / len(words), "word %d of %d" % (done, len(words)))
        job.sleep(job.args.get("pause", 0))
    if job.args.get("fail") and job.attempt == 1:
        raise ValueError("the first attempt fails")
    if not words:
        raise Permanent("no words")
    return {"words": len(words), "by": "python"}


if __name__ == "__main__":
    worker = Worker(os.environ.get("AMBOY_URL", "http://localhost:8080"), os.environ.get("AMBOY_TOKEN", ""), sys.argv[1:] or ["texts"],
                    {"count": count}, float(os.environ.get("AMBOY_LEASE", "30")), float(os.environ.get("AMBOY_WAIT", "5")))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: worker.stopping.set())
    worker.run()
