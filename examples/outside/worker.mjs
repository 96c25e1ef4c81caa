// A worker for Node 18 or newer, without dependencies. Use it as it is, or copy it.
//
//     AMBOY_URL=http://localhost:8080 AMBOY_TOKEN=... node worker.mjs texts
import { setTimeout as sleep } from "node:timers/promises";
import process from "node:process";

class Permanent extends Error {} // an error after which a job is not retried

const maxResult = 1 << 20, maxText = 10_000, maxLine = 2048, maxLines = 100; // what the server accepts

class Worker {
  constructor({ url, token, queues, handlers, lease = 30, wait = 5 }) {
    Object.assign(this, { url, handlers, lease, wait, stopping: new AbortController() });
    this.headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
    this.asked = { queues, types: Object.keys(handlers), worker: `node-${process.pid}`, wait: `${wait}s`, lease: `${lease}s` };
  }

  async call(path, body) {
    const signal = AbortSignal.timeout((this.wait + 30) * 1000);
    const answer = await fetch(this.url + path, { method: "POST", headers: this.headers, body: JSON.stringify(body), signal });
    const value = await answer.json();
    if (!answer.ok) throw new Error(`${answer.status} ${value.detail ?? value.title}`);
    return value;
  }

  // beat renews the lease of a job, and sends its progress and its log.
  async beat(job) {
    const log = job.log.splice(0).slice(-maxLines).map((line) => line.slice(0, maxLine));
    try {
      const { heartbeats: [told] } = await this.call("/v2/leases/heartbeat", { heartbeats: [{ token: job.token, progress: job.at, log }] });
      if (told.cancel || told.problem?.status === 409) job.stop(); // it is canceled, or its lease is lost
    } catch (err) {
      console.error("worker:", err.message);
    }
  }

  // runJob runs a job, and returns its acknowledgement. Handlers read the job's id, type, attempt and args, add
  // lines to its log, and end when its signal aborts.
  async runJob(leased) {
    const canceled = new AbortController();
    const job = { ...leased, log: [], signal: canceled.signal, stop: () => canceled.abort(new Error("stopped")) };
    job.progress = (fraction, message = "") => {
      if (!(fraction >= 0 && fraction <= 1)) throw new RangeError(`the fraction must be from 0 to 1 (is ${fraction})`);
      job.at = { fraction, message: message.slice(0, maxLine) };
      job.signal.throwIfAborted();
    };
    const beats = setInterval(() => this.beat(job), (this.lease * 1000) / 3);
    try {
      const result = JSON.stringify((await this.handlers[job.type](job)) ?? null); // throws for a BigInt
      const size = Buffer.byteLength(result);
      if (size > maxResult) throw new Permanent(`the result has ${size} bytes, and may have ${maxResult}`);
      return { token: job.token, complete: { result: JSON.parse(result) } };
    } catch (err) {
      const error = String(err?.message || err).slice(0, maxText), stack = String(err?.stack ?? "").slice(0, maxText);
      return { token: job.token, fail: { error, stack, permanent: err instanceof Permanent } };
    } finally {
      clearInterval(beats);
      if (job.log.length > 0) await this.beat(job); // an acknowledgement takes no log
    }
  }

  // slot runs one job after the other. Each call acknowledges the last job and leases the next one.
  async slot() {
    const { signal } = this.stopping;
    let acks = [];
    while (!signal.aborted) {
      let answer = { jobs: [] }, problem;
      try {
        answer = await this.call("/v2/leases", { ...this.asked, acknowledge: acks });
        // A problem of 500 and above is about the server: that acknowledgement is sent again.
        acks = acks.filter((_, i) => (answer.acknowledged[i].problem?.status ?? 0) >= 500);
        problem = answer.problem ?? (acks.length > 0 && "an acknowledgement failed");
      } catch (err) {
        problem = err.message;
      }
      if (problem) {
        console.error("worker:", problem);
        await sleep(1000, undefined, { signal }).catch(() => {});
      }
      for (const leased of answer.jobs) {
        acks.push(signal.aborted ? { token: leased.token, release: {} } : await this.runJob(leased));
      }
    }
    if (acks.length === 0) return;
    await this.call("/v2/leases/acknowledge", { acknowledge: acks }).catch((err) => console.error("worker:", err.message)); // the job is leased again
  }

  // run runs jobs until stop is called, and waits for the jobs that run then.
  run(slots = 2) {
    return Promise.all(Array.from({ length: slots }, () => this.slot()));
  }

  stop() {
    this.stopping.abort();
  }
}

// count counts words, slowly if that is asked for.
async function count(job) {
  const { text, pause = 0, fail = false } = job.args;
  const words = text.split(/\s+/).filter(Boolean);
  job.log.push(`node counts ${words.length} words`);
  for (const i of words.keys()) {
    job.progress(i / words.length, `word ${i} of ${words.length}`);
    await sleep(pause * 1000, undefined, { signal: job.signal }); // ends if the job must stop
  }
  if (fail && job.attempt === 1) throw new Error("the first attempt fails");
  if (words.length === 0) throw new Permanent("no words");
  return { words: words.length, by: "node" };
}

const { AMBOY_URL: url = "http://localhost:8080", AMBOY_TOKEN: token = "", AMBOY_LEASE: lease = 30, AMBOY_WAIT: wait = 5 } = process.env;
const queues = process.argv.length > 2 ? process.argv.slice(2) : ["texts"];
const worker = new Worker({ url, token, queues, handlers: { count }, lease: Number(lease), wait: Number(wait) });
process.on("SIGINT", () => worker.stop()).on("SIGTERM", () => worker.stop());
await worker.run();
