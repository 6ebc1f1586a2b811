// Which cells does a lane show? Pure: a lane as the server tells it in, cells out.

export const WORDS = {
  queued: "queued",
  in_flight: "in flight",
  retrying: "retrying",
  delivered: "delivered",
  waiting: "waiting behind a blocked head",
  dead: "dead",
  skipped: "skipped",
  cancelled: "cancelled",
};

const BEFORE = 5;
const AFTER = 6;

/** The cells round the head: [{seq, state}], and how many more stand in line. `settled` knows what was skipped. */
export function cellsOf(lane, settled = new Map(), before = BEFORE, after = AFTER) {
  const cells = [];
  for (let seq = Math.max(1, lane.head - before); seq < lane.head; seq++) {
    cells.push({ seq, state: settled.get(seq) ?? "delivered" });
  }
  const last = Math.min(lane.tail, lane.head + after);
  for (let seq = lane.head; seq <= last; seq++) {
    cells.push({ seq, state: seq === lane.head ? headState(lane) : behind(lane) });
  }
  return { cells, more: Math.max(0, lane.tail - last) };
}

export function headState(lane) {
  if (lane.state === "blocked") return "dead";
  if (lane.in_flight) return "in_flight";
  if (lane.state === "retrying") return "retrying";
  return "queued";
}

function behind(lane) {
  return lane.state === "blocked" || lane.state === "retrying" ? "waiting" : "queued";
}

/** One line about what the lane does, the reason first. */
export function sentence(lane, now) {
  const waiting = lane.waiting ? ` · ${lane.waiting} waiting` : "";
  switch (lane.state) {
    case "blocked":
      return `${lane.reason ?? "failed"} after ${tries(lane)}, ${lane.head_type ?? "it"} is dead${waiting}`;
    case "retrying":
      return `${lane.reason ?? "failed"} · try ${lane.attempts}/${lane.attempts_max ?? "?"}${held(lane) || due(lane, now)}${waiting}`;
    case "paused":
      return `endpoint is paused${waiting}`;
    case "active":
      return `${lane.in_flight ? "in flight" : "queued"}: #${lane.head} ${lane.head_type ?? ""}${held(lane)}${waiting}`;
    default:
      return `${lane.tail} delivered, nothing waits`;
  }
}

function held(lane) {
  return lane.breaker === "open" && !lane.in_flight ? ", breaker open" : "";
}

function tries(lane) {
  return `${lane.attempts} ${lane.attempts === 1 ? "try" : "tries"}`;
}

function due(lane, now) {
  if (lane.in_flight) return ", trying now";
  if (!lane.next_at) return "";
  const seconds = (Date.parse(lane.next_at) - now) / 1000;
  if (seconds <= 0) return ", due now";
  return seconds < 60 ? `, next in ${Math.ceil(seconds)} s` : `, next in ${Math.ceil(seconds / 60)} min`;
}

/** What is blocked stands first; everything else keeps its place by endpoint and key, whatever happens to it. */
export function order(a, b) {
  const first = (lane) => (lane.state === "blocked" ? 0 : 1);
  const place = (lane) => `${lane.endpoint_name || lane.endpoint}\n${lane.key}`;
  return first(a) - first(b) || place(a).localeCompare(place(b), undefined, { numeric: true });
}
