#!/usr/bin/env python3
"""A worker in Python, without dependencies. Copy it, and replace count and HANDLERS.

    AMBOY_URL=http://localhost:8080 AMBOY_TOKEN=... python3 worker.py texts
"""
import json, os, signal, sys, threading, traceback, urllib.request

URL, TOKEN = os.environ.get("AMBOY_URL", "http://localhost:8080"), os.environ.get("AMBOY_TOKEN", "")
LEASE, WAIT = float(os.environ.get("AMBOY_LEASE", "30")), float(os.environ.get("AMBOY_WAIT", "5"))  # seconds
MAX_RESULT, MAX_TEXT, MAX_LINES = 1 << 20, 5000, 100  # what the server accepts
stopping = threading.Event()


class Permanent(Exception):
    """An error after which a job is not retried."""


class Canceled(Exception):
    """The job was canceled, or its lease was lost."""


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


HANDLERS = {"count": count}  # by the types of their jobs


def call(path, body):
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + TOKEN}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=WAIT + 30) as answer:
        return json.load(answer)


class Job:
    """A leased job: its id, type, attempt and args are what a handler reads."""

    def __init__(self, leased):
        vars(self).update({"args": None, **leased})
        self.at, self.log_lines, self.stop, self.ended = None, [], threading.Event(), threading.Event()

    def sleep(self, seconds):
        """Sleeps. Raises Canceled as soon as the job must stop."""
        if self.stop.wait(seconds):
            raise Canceled("stopped")

    def progress(self, fraction, message=""):
        """Reports progress, from 0 to 1, with the next heartbeat. Raises Canceled if the job must stop."""
        self.at = {"fraction": min(1, max(0, fraction)), "message": message[:MAX_TEXT]}
        self.sleep(0)

    def log(self, line):
        self.log_lines.append(line[:MAX_TEXT])

    def beat(self):
        """Renews the lease, sends the progress and the log, and learns whether the job must stop."""
        lines, self.log_lines = self.log_lines, []
        try:
            beat = {"token": self.token, "progress": self.at, "log": lines[-MAX_LINES:]}
            told = call("/v2/leases/heartbeat", {"heartbeats": [beat]})["heartbeats"][0]
            if told["cancel"] or told.get("problem", {}).get("status") == 409:  # canceled, or the lease is lost
                self.stop.set()
        except Exception as err:  # no answer, or half of one
            print("worker:", err, file=sys.stderr)

    def beats(self):
        while not self.ended.wait(LEASE / 3):
            self.beat()

    def run(self):
        """Runs the job, and returns how it ended."""
        threading.Thread(target=self.beats, daemon=True).start()
        try:
            result = HANDLERS[self.type](self)
            if len(json.dumps(result, allow_nan=False)) > MAX_RESULT:  # raises an error for a result that is not JSON
                raise Permanent("the result has more than %d bytes" % MAX_RESULT)
            return {"complete": {"result": result}}
        except BaseException as err:  # such as SystemExit, which would end the thread
            error, stack = (str(err) or repr(err))[:MAX_TEXT], traceback.format_exc()[-MAX_TEXT:]
            return {"fail": {"error": error, "stack": stack, "permanent": isinstance(err, Permanent)}}
        finally:
            self.ended.set()
            if self.log_lines:
                self.beat()  # an acknowledgement takes no log


def slot():
    """Runs one job after the other. Each call acknowledges the last one and leases the next one."""
    asked = {"queues": sys.argv[1:] or ["texts"], "types": list(HANDLERS), "worker": "python-%d" % os.getpid(),
             "wait": "%gs" % WAIT, "lease": "%gs" % LEASE}
    acks = []
    while not stopping.is_set():
        try:
            answer = call("/v2/leases", {**asked, "acknowledge": acks})
            told = answer.get("acknowledged", [])
            # A problem of 500 and above is about the server: that acknowledgement is sent again.
            acks = [ack for ack, t in zip(acks, told) if t.get("problem", {}).get("status", 0) >= 500]
            problem = answer.get("problem") or acks and "an acknowledgement failed"
        except Exception as err:  # no answer, or half of one
            answer, problem = {}, err
        if problem:
            print("worker:", problem, file=sys.stderr)
            stopping.wait(1)
        for leased in answer.get("jobs", []):  # a job that comes after a signal is handed back
            acks.append({"token": leased["token"], **({"release": {}} if stopping.is_set() else Job(leased).run())})
    if acks:  # an error ends this thread, and the job is leased again
        call("/v2/leases/acknowledge", {"acknowledge": acks})


for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: stopping.set())  # jobs that run end first
slots = [threading.Thread(target=slot) for _ in range(2)]  # each runs one job at a time
for thread in slots:
    thread.start()
for thread in slots:
    thread.join()
