// Receives the deliveries of hooklane: `node server.mjs`. Settings: DATABASE_URL, WEBHOOK_SECRET, PORT.
import { readFile } from "node:fs/promises";
import express from "express";
import pg from "pg";
import { receive } from "./receive.mjs";
import { isSigned, readKeys } from "./signature.mjs";

const keys = readKeys(process.env.WEBHOOK_SECRET ?? "");
// Every wait ends before the sender's own (20 s), so that the sender is told and need not guess.
const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  max: 10,
  connectionTimeoutMillis: 5_000,
  statement_timeout: 10_000,
  idle_in_transaction_session_timeout: 15_000,
});
pool.on("error", (error) => console.error(`an idle connection was lost: ${error.message}`));
await pool.query(await readFile(new URL("schema.sql", import.meta.url), "utf8"));

/** What an event does. It uses *client* alone, so that it counts if and only if the transaction commits. */
async function effect(client, event) {
  if (event.type !== "account.credited") return; // not for us; its place in the order is taken all the same
  const { account, cents } = event.data;
  const { rows } = await client.query(
    `INSERT INTO account VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET cents = account.cents + excluded.cents
     RETURNING cents`,
    [account, cents],
  );
  await client.query("INSERT INTO entry (account, seq, cents, balance) VALUES ($1, $2, $3, $4)", [
    account,
    event.seq ?? null,
    cents,
    rows[0].cents,
  ]);
}

const app = express().disable("x-powered-by");

// The raw bytes, whatever the content type says: they are what was signed. Nothing compressed: it is never sent.
const raw = express.raw({ type: () => true, limit: "512kb", inflate: false });
app.post("/webhooks/hooklane", raw, async (request, response) => {
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  const id = request.get("webhook-id");
  const about = { id, timestamp: request.get("webhook-timestamp"), signature: request.get("webhook-signature") };
  if (!isSigned(about, body, keys)) return response.status(401).json({ error: "not signed by our sender" });
  const event = readEnvelope(body);
  // Key and seq are taken from the signed body; the headers of the same names are not signed.
  if (event?.id !== id) return response.status(400).json({ error: "expected hooklane's envelope" });

  const { outcome, expected } = await receive(pool, event, effect);
  response.set("hooklane-outcome", outcome);
  if (outcome === "held") {
    return response.status(409).set("webhook-expected-seq", String(expected)).json({ error: "out of sequence" });
  }
  response.json({ status: outcome === "applied" ? "ok" : "already_processed" });
});

app.get("/accounts/:id", async (request, response) => {
  const { rows } = await pool.query("SELECT seq, cents, balance FROM entry WHERE account = $1 ORDER BY n", [
    request.params.id,
  ]);
  response.json({ account: request.params.id, entries: rows.map((row) => Object.values(row).map(Number)) });
});

// Nothing was stored, or nobody knows: any answer but 2xx makes the sender come again.
app.use((error, request, response, next) => {
  if (response.headersSent) return next(error);
  const status = error.status ?? (isPassing(error) ? 503 : 500);
  if (status >= 500) console.error(`${request.get("webhook-id")}: ${error.message}`);
  if (status === 503) response.set("retry-after", "1");
  response.status(status).json({ error: "try again" });
});

function readEnvelope(body) {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

/** Whether the database was away or busy (SQLSTATE: connection, conflict, no room, lock, operator), so that waiting helps. */
function isPassing(error) {
  return /^(08|40|53|55|57)...$/.test(error.code ?? "");
}

setInterval(() => {
  const prune = "DELETE FROM webhook_seen WHERE seen_at < now() - interval '30 days'";
  pool.query(prune).catch((error) => console.error(`pruning failed: ${error.message}`));
}, 3_600_000).unref();

const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", (error) => {
  if (error) throw error;
  console.log(`listening on http://127.0.0.1:${server.address().port}/webhooks/hooklane`);
});
process.once("SIGTERM", () => server.close(() => pool.end()));
