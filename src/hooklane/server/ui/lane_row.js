// One lane of the board: sender queue, gate, in flight, consumer. An event travels once for each real send.

import { html, useEffect, useLayoutEffect, useMemo, useRef } from "./kit.js";
import { clock } from "./live.js";
import { Cell } from "./parts.js";
import { href, place } from "./route.js";
import { ago, number, since, until } from "./words.js";

/** So many waiting cells at most, of long numbers one less, as of those that are done; a narrow board has no room for the one that is `far`, and says +1. */
const QUEUE = 3;
const LONG_SEQ = 1000;
const DONE = 3;
const TRAVEL_MS = 420;
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** Which rows are on the screen: only these move. */
const inView = new WeakSet();
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) inView[entry.isIntersecting ? "add" : "delete"](entry.target);
});

export function headState(lane) {
  if (lane.state === "blocked") return "dead";
  if (lane.in_flight) return "in_flight";
  return lane.state === "retrying" ? "retrying" : "queued";
}

const behindState = (lane) => (lane.state === "blocked" || lane.state === "retrying" ? "waiting" : "queued");

const gateOf = (lane) => ({ blocked: "shut", retrying: lane.in_flight ? "open" : "held", paused: "held" })[lane.state] ?? "open";

/** The cells before the gate, the head last, and how many more stand behind them. */
function queueOf(lane) {
  if (lane.head > lane.tail) return { cells: [], more: 0 };
  const first = lane.in_flight ? lane.head + 1 : lane.head;
  const last = Math.min(lane.tail, first + QUEUE - (lane.in_flight ? 1 : 0) - (lane.tail >= LONG_SEQ ? 1 : 0));
  const cells = [];
  for (let seq = last; seq >= first; seq--) cells.push({ seq, state: seq === lane.head ? headState(lane) : behindState(lane) });
  return { cells, more: lane.tail - last };
}

/** The last ones that were settled, the newest first. */
function doneOf(lane, settled) {
  const cells = [];
  for (let seq = lane.head - 1; seq >= Math.max(1, lane.head - DONE); seq--) cells.push({ seq, state: settled.get(seq) ?? "delivered" });
  return cells;
}

/** [loud, quiet, tone]: what the lane does, the reason first. */
export function sentence(lane, last, now) {
  switch (lane.state) {
    case "blocked":
      return [`Blocked ${since(lane.since, now)}`.trim(), reasonOf(lane), "bad"];
    case "retrying":
      return [`Try ${lane.attempts}${lane.attempts_max ? ` of ${lane.attempts_max}` : ""}`, `${reasonOf(lane)}${held(lane)}`, "retry"];
    case "paused":
      return ["Paused", lane.waiting ? `${lane.tail - lane.head + 1} kept, nothing is lost` : "nothing waits", ""];
    case "active":
      return [lane.head_type ?? `#${lane.head}`, lane.in_flight ? "in flight" : `queued${held(lane)}`, "flight"];
    default:
      return last && last.outcome === "delivered" && last.seq === lane.head - 1
        ? [last.said ?? "delivered", `#${last.seq}, ${Math.round(last.took_ms ?? 0)} ms, ${ago(last.started_at, now)}`, "good"]
        : [`${number(lane.tail)} settled`, "nothing waits", ""];
  }
}

const reasonOf = (lane) => [lane.reason ?? "failed", lane.head_said && `“${lane.head_said}”`].filter(Boolean).join(" ");
const held = (lane) => (lane.breaker === "open" && !lane.in_flight ? ", breaker open" : "");

/** What is on its way, or why nothing is. Only a countdown hears the clock. */
function OnWire({ lane }) {
  if (lane.in_flight) return html`<${Cell} key=${`${lane.head}-${lane.attempts}`} class="fly" seq=${lane.head} state="in_flight" />`;
  if (lane.state === "blocked") return html`<span class="stop">gate shut</span>`;
  if (lane.state === "paused") return html`<span class="stop">paused</span>`;
  if (lane.breaker === "open" && lane.head <= lane.tail) return html`<span class="next">breaker open</span>`;
  if (lane.state === "retrying") return html`<span class="next">${lane.next_at ? `next ${until(lane.next_at, clock.value)}` : "held"}</span>`;
  return null;
}

/** The words of a row. They age with the clock, and the cells beside them need not be drawn anew for that. */
function Says({ row }) {
  const lane = row.lane.value;
  const [loud, quiet, tone] = sentence(lane, row.last.value, lane.state === "active" ? 0 : clock.value);
  return html`<p title=${quiet}><b class=${tone}>${loud}</b><br />${quiet}</p>`;
}

export function LaneRow({ row, chosen }) {
  const lane = row.lane.value;
  const element = useRef();
  const before = useRef(lane);
  const { cells, more } = queueOf(lane);
  const done = doneOf(lane, row.settled);
  useEffect(() => {
    const here = element.current;
    observer.observe(here);
    return () => observer.unobserve(here);
  }, []);
  useLayoutEffect(() => {
    if (before.current !== lane && !still.matches && inView.has(element.current)) willTravel(element.current, before.current, lane);
    before.current = lane;
  }, [lane]);
  const { query } = place.value;
  const address = useMemo(() => href("/lanes", { ...query, lane: row.name }), [query, row.name]);
  return html`<li class="lane" ref=${element} data-state=${lane.state} data-selected=${chosen || undefined} data-long=${lane.tail >= LONG_SEQ || undefined}>
    <a class="who" href=${address} data-row data-lane=${row.name} aria-current=${chosen ? "true" : undefined}>
      <b dir="auto">${lane.key}</b><span class="ell">${lane.endpoint_name || lane.endpoint}</span></a>
    <div class="queue">${more > 0 && html`<span class="more">+${number(more)}</span><span class="more tight">+${number(more + 1)}</span>`}${cells.map((cell, n) => html`<${Cell} key=${cell.seq} class=${more > 0 && n === 0 ? "far" : ""} ...${cell} />`)}</div>
    <div class="wire" data-gate=${gateOf(lane)}><${OnWire} lane=${lane} /></div>
    <div class="done">${done.map((cell, age) => html`<${Cell} key=${cell.seq} class=${`old${age + 1}`} ...${cell} />`)}</div>
    <div class="says"><${Says} row=${row} />
      ${lane.state === "blocked" && html`<a class="btn small" href=${address} aria-label=${`Resolve ${lane.key}`}>Resolve…</a>`}</div>
  </li>`;
}

let movers = [];

/** All rows that changed begin to move together: to measure one between the changes of others is a layout for each. */
function willTravel(element, before, lane) {
  if (!movers.length) requestAnimationFrame(travelAll);
  movers.push([element, before, lane]);
}

function travelAll() {
  const all = movers.filter(([element]) => element.isConnected);
  movers = [];
  if (!all.length) return;
  for (const [element, before, lane] of all) travel(element, before, lane, wide);
}

/** How wide the column between gate and consumer is, told by the browser when it has laid out: to ask costs a layout. */
let wide = 0;
const watch = new ResizeObserver((entries) => (wide = entries.at(-1).contentRect.width));

/** The head of that column; all rows are alike. */
export const measured = (element) => (watch.disconnect(), element && watch.observe(element));

/** From the gate to the consumer, once; what stands there already makes room. Only transform and opacity. */
function travel(element, before, lane, wide) {
  const move = (cell, frames, ms = TRAVEL_MS) => cell?.animate(frames, { duration: ms, easing: "cubic-bezier(.4, 0, .2, 1)", fill: "backwards" });
  if (lane.in_flight && (!before.in_flight || before.head !== lane.head)) {
    move(element.querySelector(".fly"), [{ transform: `translateX(${-0.38 * wide}px)`, opacity: 0.2 }, { transform: "none", opacity: 1 }], 300);
  }
  const landed = lane.head - before.head;
  if (landed <= 0) return;
  const from = -(wide * (before.in_flight ? 0.62 : 1));
  element.querySelectorAll(".done .cell").forEach((cell, at) => {
    if (at < landed) move(cell, [{ transform: `translateX(${from - 40 * at}px)`, opacity: 0.4 }, { transform: "none", opacity: 1 }]);
    else move(cell, [{ transform: `translateX(calc(${-Math.min(landed, DONE)} * (100% + 4px)))` }, { transform: "none" }], 220);
  });
}
