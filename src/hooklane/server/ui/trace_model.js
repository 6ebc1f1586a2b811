// What a recorded trace looks like at any moment. Pure: the same for the playground and for pages without a server.

const GONE_MS = 700;

export const RECEIVERS = {
  naive: ["Naive", "applies what arrives"],
  check_then_mark: ["Check, then mark", "two steps, no transaction"],
  delivered_at: ["deliveredAt guard", "newest clock wins"],
  ours: ["hooklane", "claim and effect in one commit"],
};

export const METERS = [
  ["sent", "sent"],
  ["once", "applied once"],
  ["lost", "lost"],
  ["twice", "applied twice"],
  ["out_of_order", "out of order"],
  ["stale", "stale at the end"],
];

const name = (step) => `${step.key}:${step.seq}`;
const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

/** A step in words. */
export function said(step) {
  const who = step.receiver ? RECEIVERS[step.receiver][0] : "";
  switch (step.kind) {
    case "published": return `${name(step)} is published`;
    case "sent": return `${name(step)} leaves the sender${step.try > 1 ? `, try ${step.try}` : ""}`;
    case "copied": return `The network makes a copy of ${name(step)}`;
    case "request_lost": return `${name(step)} is lost on its way`;
    case "arrived": return `${name(step)} arrives`;
    case "applied": return `${who}: applies ${name(step)}`;
    case "duplicate": return `${who}: knows ${name(step)} and skips it`;
    case "stale": return `${who}: takes ${name(step)} for old and skips it`;
    case "busy": return `${who}: another worker has ${name(step)}, come back`;
    case "failed": return `${who}: fails on ${name(step)}`;
    case "crashed": return `The consumer dies with ${name(step)} in its hands`;
    case "answered": return `The consumer answers ${step.status} to ${name(step)}`;
    case "ack_lost": return `The answer to ${name(step)} is lost`;
    case "heard": return step.status ? `The sender hears ${step.status} for ${name(step)}` : `The connection of ${name(step)} breaks`;
    case "timed_out": return `${name(step)} got no answer in time`;
    case "acked": return `${name(step)} is acknowledged; the next of key ${step.key} may go`;
    case "retry": return `${name(step)} is tried again in ${seconds(step.until - step.t)}`;
    case "dead": return `${name(step)} is dead: key ${step.key} stops until a person decides`;
    case "stalled": return `A worker of the sender stands still with ${name(step)} in its hands`;
    case "worker_crashed": return `A worker of the sender dies with ${name(step)} in its hands; another takes over`;
    case "worker_restarted": return "The worker of the sender is started again";
    case "woke": return `The worker wakes up and sends ${name(step)} after all`;
    default: return step.kind;
  }
}

/** Everything about a trace that does not depend on the moment. */
export function modelOf(trace) {
  const keys = [...new Set(trace.steps.filter((step) => step.kind === "published").map((step) => step.key))].sort();
  const events = new Map();
  const flights = new Map();
  for (const step of trace.steps) {
    if (step.kind === "published") events.set(name(step), { key: step.key, seq: step.seq, at: step.t, turns: [] });
    const event = events.get(name(step));
    if (step.kind === "sent" || step.kind === "copied") {
      flights.set(step.copy, { name: name(step), key: step.key, copy: step.copy, isCopy: step.kind === "copied", from: step.t, to: step.until });
    }
    const flight = flights.get(step.copy);
    if (step.kind === "request_lost") Object.assign(flight, { to: step.t + (step.t - flight.from), lostAt: step.t });
    if (step.kind === "arrived") flight.arrivedAt = step.t;
    if (step.kind === "answered" && step.until) Object.assign(flight, { backFrom: step.t, backTo: step.until, status: step.status });
    if (step.kind === "ack_lost" && flight.backFrom !== undefined) Object.assign(flight, { backTo: step.t + (step.t - flight.backFrom), ackLostAt: step.t });
    if (step.kind === "crashed") flight.crashedAt = step.t;
    if (event && TURNS[step.kind] && !step.receiver) event.turns.push({ t: step.t, state: TURNS[step.kind], until: step.until, kind: step.kind });
  }
  const times = [...new Set(trace.steps.map((step) => step.t))];
  return { trace, keys, events: [...events.values()], flights: [...flights.values()], times, end: Math.max(trace.end_ms, 1) };
}

const TURNS = { sent: "in_flight", timed_out: "queued", heard: "queued", retry: "retrying", acked: "delivered", dead: "dead", stalled: "stalled", worker_crashed: "orphaned" };

/** What is to be seen *t* milliseconds after the start. */
export function frameAt(model, t) {
  const lanes = model.keys.map((key) => laneAt(model, key, t));
  const flights = model.flights.flatMap((flight) => flightAt(flight, t));
  const last = lastStep(model.trace.steps, t);
  return { t, lanes, flights, caption: last ? said(last) : "Press play", meters: metersAt(model, t), isOver: t >= model.end };
}

function laneAt(model, key, t) {
  const cells = [];
  let isDead = false;
  let note = null;
  let gate = "open";
  for (const event of model.events) {
    if (event.key !== key || event.at > t) continue;
    const turn = event.turns.filter((one) => one.t <= t).at(-1);
    // A worker that wakes up late sends what was acknowledged long ago: that changes nothing for the lane.
    const acked = event.turns.some((one) => one.state === "delivered" && one.t <= t);
    let state = acked ? "delivered" : (turn?.state ?? "queued");
    if (state === "queued" && isDead) state = "waiting";
    if (state === "dead") [isDead, gate, note] = [true, "shut", `${key}:${event.seq} is dead; a person decides`];
    if (state === "retrying" && turn.until > t) [gate, note] = ["held", `again in ${seconds(turn.until - t)}`];
    if (state === "stalled") [gate, note] = ["held", "its worker stands still"];
    if (state === "orphaned") [gate, note] = ["held", "its worker died; another takes over"];
    if (state === "retrying" && turn.until <= t) state = "queued";
    cells.push({ seq: event.seq, state: state === "stalled" || state === "orphaned" ? "retrying" : state });
  }
  return { key, gate, note, queue: cells.filter((cell) => cell.state !== "delivered"), done: cells.filter((cell) => cell.state === "delivered") };
}

const part = (t, from, to) => Math.min(1, Math.max(0, (t - from) / Math.max(1, to - from)));

function flightAt(flight, t) {
  const base = { id: `${flight.copy}`, name: flight.name, key: flight.key, isCopy: flight.isCopy };
  if (t < flight.from) return [];
  if (flight.lostAt !== undefined && t >= flight.lostAt) {
    return t < flight.lostAt + GONE_MS ? [{ ...base, at: part(flight.lostAt, flight.from, flight.to), kind: "lost" }] : [];
  }
  const arrivesAt = flight.arrivedAt ?? flight.to;
  if (t < arrivesAt) return [{ ...base, at: part(t, flight.from, flight.to), kind: "request" }];
  if (flight.crashedAt !== undefined && t < flight.crashedAt + GONE_MS) return [{ ...base, at: 1, kind: "lost" }];
  if (flight.backFrom === undefined || t < flight.backFrom) return [];
  if (flight.ackLostAt !== undefined && t >= flight.ackLostAt) {
    return t < flight.ackLostAt + GONE_MS ? [{ ...base, at: 1 - part(flight.ackLostAt, flight.backFrom, flight.backTo), kind: "ack-lost" }] : [];
  }
  return t < flight.backTo ? [{ ...base, name: String(flight.status), at: 1 - part(t, flight.backFrom, flight.backTo), kind: flight.status < 300 ? "ack" : "refusal" }] : [];
}

/** The last step that happened by *t*, found in halves. */
function lastStep(steps, t) {
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle].t <= t) low = middle + 1;
    else high = middle;
  }
  return steps[low - 1];
}

/** The meters at a moment; what is known only at the end is null before. */
function metersAt(model, t) {
  const { steps, meters } = model.trace;
  if (t >= model.end) return meters;
  const sent = new Set();
  const now = Object.fromEntries(Object.keys(meters).map((receiver) => [receiver, { once: 0, twice: 0, out_of_order: 0, lost: null, stale: null }]));
  for (const step of steps) {
    if (step.t > t) break;
    if (step.kind === "sent") sent.add(name(step));
    if (step.tally) Object.assign(now[step.receiver], step.tally);
  }
  for (const meter of Object.values(now)) meter.sent = sent.size;
  return now;
}

/** The moment of the next step after *t*, or of the one before it. */
export function stepFrom(model, t, forward) {
  if (forward) return model.times.find((at) => at > t + 0.01) ?? model.end;
  return model.times.filter((at) => at < t - 0.01).at(-1) ?? 0;
}
