// Applies an event once and in its turn: what was seen, where the key stands and the effect are one transaction.

/** Where an event stands: `ready`, `past` (it or a later one was applied) or `early` (one before it was not). */
export function turnOf({ seq, prev_seq }, applied) {
  if (seq <= applied) return "past";
  return prev_seq <= applied ? "ready" : "early";
}

/**
 * Runs *effect* for *event* unless that was done before. Returns the outcome: `applied`, `duplicate`, `stale`, or
 * `held` with the seq that is next. What throws has changed nothing, or is not known to have (a commit whose answer was
 * lost): the sender sends the event again, and then it is seen what is true.
 */
export async function receive(pool, event, effect) {
  const client = await pool.connect().catch((error) => {
    throw Object.assign(error, { status: 503 }); // nothing was begun
  });
  let broken;
  try {
    await client.query("BEGIN");
    const result = await inTransaction(client, event, effect);
    const ended = await client.query(result.outcome === "held" ? "ROLLBACK" : "COMMIT");
    // PostgreSQL answers the COMMIT of a failed transaction with ROLLBACK, and without an error.
    if (result.outcome !== "held" && ended.command !== "COMMIT") throw new Error("the transaction was rolled back");
    return result;
  } catch (error) {
    await client.query("ROLLBACK").catch((failure) => (broken = failure));
    throw error;
  } finally {
    client.release(broken);
  }
}

async function inTransaction(client, event, effect) {
  // Of copies that come at the same time the second waits here until the first has committed or rolled back.
  const first = await client.query("INSERT INTO webhook_seen (id) VALUES ($1) ON CONFLICT DO NOTHING", [event.id]);
  if (first.rowCount === 0) return { outcome: "duplicate" };
  if (event.seq === undefined) {
    await effect(client, event); // without a key there is no order, and only the id tells copies
    return { outcome: "applied" };
  }
  await client.query("INSERT INTO webhook_lane (key, seq) VALUES ($1, 0) ON CONFLICT DO NOTHING", [event.key]);
  const lane = await client.query("SELECT seq FROM webhook_lane WHERE key = $1 FOR UPDATE", [event.key]);
  const applied = Number(lane.rows[0].seq);
  switch (turnOf(event, applied)) {
    case "past":
      return { outcome: "stale" };
    case "early":
      return { outcome: "held", expected: applied + 1 };
  }
  await effect(client, event);
  await client.query("UPDATE webhook_lane SET seq = $2 WHERE key = $1", [event.key, event.seq]);
  return { outcome: "applied" };
}
