// Finds the failed jobs of a queue, previews a retry, retries them, and follows events until they
// have ended, with openapi-fetch and the types that openapi-typescript generates.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const [url, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });
const filter: components["schemas"]["JobFilter"] = { queues: ["images"], states: ["failed"] };
const { data: found, error } = await client.GET("/jobs", { params: { query: filter } });
if (!found) throw new Error(error.detail);
for (const job of found.jobs) console.log("failed:", job.id, job.error);
const retry = async (dry_run: boolean) => {
  const { data, error } = await client.POST("/jobs/actions", { body: { action: "retry", filter, limit: 100, dry_run } });
  if (!data) throw new Error(error.detail);
  return data.done;
};
console.log("would retry:", await retry(true));
console.log("retried:", await retry(false));
const { data: events } = await client.GET("/events", { parseAs: "stream" });
let text = "";
for await (const chunk of events!.pipeThrough(new TextDecoderStream())) {
  text += chunk;
  const [event, rest] = text.split(/\n\n(.*)/s);
  if (rest === undefined) continue;
  text = rest;
  const queues: components["schemas"]["QueuePage"] = JSON.parse(event.replace(/^event: queues\ndata: /, ""));
  const { pending, running, completed } = queues.queues[0].counts;
  if (pending + running > 0) continue;
  console.log("ended:", completed);
  process.exit();
}
