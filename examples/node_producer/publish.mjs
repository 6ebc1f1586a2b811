// Publishes the events of a file, one JSON object a line: `node publish.mjs events.ndjson`. Settings: HOOKLANE_URL,
// HOOKLANE_API_KEY. Each line has a `name` of its own, so a run that was ended half way is simply started again.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { Publisher } from "./publisher.mjs";

const WAITING_MAX = 64;

const publisher = new Publisher(process.env.HOOKLANE_URL ?? "http://127.0.0.1:8787", {
  apiKey: process.env.HOOKLANE_API_KEY,
  patience_ms: 1000 * Number(process.env.PATIENCE_S ?? 900),
});
const waiting = new Set();

for await (const line of createInterface({ input: createReadStream(process.argv[2]), crlfDelay: Infinity })) {
  if (!line.trim()) continue;
  const { name, ...event } = JSON.parse(line);
  const told = publisher
    .publish(event, name)
    .then(({ id, lanes }) => console.log(JSON.stringify({ name, id, key: event.key, seq: lanes.map((lane) => lane.seq) })))
    .catch((error) => {
      console.error(`${name}: ${error.message}`);
      process.exitCode = 1;
    })
    .finally(() => waiting.delete(told));
  waiting.add(told);
  if (waiting.size >= WAITING_MAX) await Promise.race(waiting);
}
await Promise.all(waiting);
