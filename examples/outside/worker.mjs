// A worker for Node 18 or newer, without dependencies. Use it as it is, or copy it.
//
//     AMBOY_URL=http://localhost:8080 AMBOY_TOKEN=... node worker.mjs texts
import { setTimeout as sleep } from "node:timers/promises";
import process from "node:process";

class Permanent extends Error {} // an error after which a job is not retried

const maxResult = 1 << 20, maxText = 10_000, maxLine = 2048, maxLines = 100; // what the server accepts

class Worker {
  constructor({ url, queues, handlers, slots = 2, lease = 30, wait = 5, token }) {
    Object.assign(this, { url, queues, handlers, slots, lease, wait, token, jobs: new Set() });
    this.name = `node-${process.pid}`;
    this.stopping = new AbortController();
  }

  async call(path, body) {
    const headers = { "Content-Type": "application/json" };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    const answer = await fetch(this.url + path, { method: "POST", headers, body: JSON.stringify(body), signal: AbortSignal.timeout(60_000) });
    const value = await answer.json();
    if (!answer.ok) throw new Error(`${answer.status} ${value.detail ?? value.title}`);
    return value;
  }

  // acknowledge tells the server about a job, for instance a checkpoint.
  async acknowledge(ack) {
    const [{ done, problem }] = (await this.call("/v2/leases/acknowledge", { acknowledge: [ack] })).acknowledged;
    if (!done) throw new Error(problem.detail ?? problem.title);
  }

  // runJob runs a job, sends the rest of its log, which an acknowledgement does not take, and
  // returns its acknowledgement.
  async runJob(leased) {
    const canceled = new AbortController();
    const job = { ...leased, log: [], at: undefined, signal: canceled.signal, cancel: () => canceled.abort(new Error("stopped")) };
    job.progress = (fraction, message = "") => {
      if (!(fraction >= 0 && fraction <= 1)) throw new RangeError(`the fraction must be from 0 to 1 (is ${fraction})`);
      job.at = { fraction, message: message.slice(0, maxLine) };
      job.signal.throwIfAborted();
    };
    job.checkpoint = (args) => this.acknowledge({ token: job.token, checkpoint: { args } });
    this.jobs.add(job);
    try {
      const result = JSON.stringify((await this.handlers[job.type](job)) ?? null); // throws for a BigInt
      const size = Buffer.byteLength(result);
      if (size > maxResult) throw new Permanent(`the result has ${size} bytes, and may have ${maxResult}`);
      return { token: job.token, complete: { result: JSON.parse(result) } };
    } catch (err) {
      const error = String(err?.message || err).slice(0, maxText), stack = String(err?.stack ?? "").slice(0, maxText);
      return { token: job.token, fail: { error, stack, permanent: err instanceof Permanent } };
    } finally {
      this.jobs.delete(job);
      if (job.log.length > 0) await this.beat([job]).catch((err) => console.error("worker:", err.message));
    }
  }

  // slot acknowledges the last job and leases the next one, in one call.
  async slot() {
    const { queues, name: worker } = this;
    const types = Object.keys(this.handlers);
    let acks = [];
    while (!this.stopping.signal.aborted) {
      let answer;
      try {
        answer = await this.call("/v2/leases", { queues, types, worker, acknowledge: acks, wait: `${this.wait}s`, lease: `${this.lease}s` });
      } catch (err) { // the acknowledgement is sent again
        console.error("worker:", err.message);
        await sleep(1000, undefined, { signal: this.stopping.signal }).catch(() => {});
        continue;
      }
      // An answer of 500 and above is about the server: send that acknowledgement again.
      acks = acks.filter((_, i) => (answer.acknowledged[i].problem?.status ?? 0) >= 500);
      if (acks.length > 0 || answer.problem) { // or nothing could be leased
        console.error("worker:", answer.problem ?? "an acknowledgement failed");
        await sleep(1000, undefined, { signal: this.stopping.signal }).catch(() => {});
      }
      for (const leased of answer.jobs) {
        acks.push(this.stopping.signal.aborted ? { token: leased.token, release: {} } : await this.runJob(leased));
      }
    }
    for (const ack of acks) {
      await this.acknowledge(ack).catch((err) => console.error("worker:", err.message)); // the job is leased again
    }
  }

  // beat renews the leases of jobs, and sends their progress and log.
  beat(jobs) {
    const heartbeats = jobs.map((j) => ({ token: j.token, progress: j.at, log: j.log.splice(0).slice(-maxLines).map((line) => line.slice(0, maxLine)) }));
    return this.call("/v2/leases/heartbeat", { heartbeats });
  }

  async heartbeats(ended) {
    while (!ended.aborted) {
      await sleep((this.lease * 1000) / 3, undefined, { signal: ended }).catch(() => {});
      const jobs = [...this.jobs];
      try {
        const answer = await this.beat(jobs);
        answer.heartbeats.forEach((told, i) => (told.cancel || told.problem?.status === 409) && jobs[i].cancel());
      } catch (err) {
        console.error("worker:", err.message);
      }
    }
  }

  // run runs jobs until stop is called, and waits for the jobs that run then.
  async run() {
    const ended = new AbortController();
    const beats = this.heartbeats(ended.signal);
    await Promise.all(Array.from({ length: this.slots }, () => this.slot()));
    ended.abort();
    await beats;
  }

  stop() {
    this.stopping.abort();
  }
}

// count counts words, slowly if that is asked for.
async function count(job) {
  const { text, pause = 0, fail = false, done = 0 } = job.args;
  const words = text.split(/\s+/).filter(Boolean);
  job.log.push(`node counts ${words.length} words`);
  for (let i = done; i < words.length; i++) {
    job.progress(i / words.length, `word ${i} of ${words.length}`);
    await sleep(pause * 1000, undefined, { signal: job.signal }); // ends if the job must stop
  }
  if (fail && job.attempt === 1) throw new Error("the first attempt fails");
  if (words.length === 0) throw new Permanent("no words");
  return { words: words.length, by: "node" };
}

const worker = new Worker({
  url: process.env.AMBOY_URL ?? "http://localhost:8080",
  token: process.env.AMBOY_TOKEN,
  lease: Number(process.env.AMBOY_LEASE ?? 30),
  wait: Number(process.env.AMBOY_WAIT ?? 5),
  queues: process.argv.length > 2 ? process.argv.slice(2) : ["texts"],
  handlers: { count },
});
process.on("SIGINT", () => worker.stop()).on("SIGTERM", () => worker.stop());
await worker.run();
