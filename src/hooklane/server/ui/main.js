// The first page: the lanes, live.

import { call, logIn } from "./api.js";
import { askNote, tell } from "./ask.js";
import { Board } from "./board.js";
import { WORDS } from "./cells.js";
import { demo } from "./demo.js";
import { h, icon, write } from "./dom.js";
import { follow } from "./stream.js";

const $ = (id) => document.getElementById(id);
const LOG_MAX = 12;
const LANES = 100;
const PAGES_MAX = 20;
const TOTALS = ["accepted", "delivered", "queued", "retrying", "dead", "skipped"];

const board = new Board($("lanes"), act);
let paused = false;
let loading = false;
let again = false;
let held = [];
let connection = "connecting";
let asOf = new Date();
let controls;

/** Fetch everything. What the stream tells meanwhile is newer, so it is taken in afterwards. */
async function load() {
  if (loading) {
    again = true; // what is being fetched may be older than what made us fetch anew
    return;
  }
  loading = true;
  try {
    const [lanes, overview] = await Promise.all([firstLanes(), call("GET", "overview")]);
    $("key-form").hidden = true;
    if (overview.features.includes("demo")) controls ??= await demo($("demo"));
    board.load(lanes);
    totals(overview);
    empty();
  } catch (error) {
    if (error.status === 401) $("key-form").hidden = false;
    write($("verdict"), error.message);
  } finally {
    loading = false;
    release();
    if (again) {
      again = false;
      load();
    }
  }
}

/** A search that looked at much ends its page early: go on until there is a board full of lanes. */
async function firstLanes() {
  const lanes = [];
  for (let cursor = "", pages = 0; cursor !== null && lanes.length < LANES && pages < PAGES_MAX; pages++) {
    const from = cursor && `&cursor=${cursor}`;
    const page = await call("GET", `lanes?limit=${LANES - lanes.length}&cells=24${from}`);
    lanes.push(...page.items);
    cursor = page.next;
  }
  return lanes;
}

function take(kind, value) {
  if (kind === "reset") return load();
  if (paused || loading) {
    held.push([kind, value]);
    return pill();
  }
  asOf = new Date();
  if (kind === "lanes") {
    board.merge(value.items);
    empty();
  }
  if (kind === "overview") totals(value);
  if (kind === "attempts") log(value.items);
  return undefined;
}

async function act(what, lane) {
  try {
    if (what === "why") {
      const { why } = await call("GET", `lanes/${lane.endpoint}/${encodeURIComponent(lane.key)}/why`);
      await tell(`Why does ${lane.key} wait?`, why);
    }
    if (what === "replay") await call("POST", `dead-letters/${lane.dead_letter}/replay`);
    if (what === "skip") {
      const waiting = lane.waiting === 1 ? "1 event" : `${lane.waiting} events`;
      const note = await askNote(
        `Skip #${lane.head} of ${lane.key}?`,
        [
          `#${lane.head} ${lane.head_type} will never be delivered.`,
          `${waiting} behind it will be sent at once; the receiver sees seq jump ${lane.head - 1} to ${lane.head + 1}.`,
        ],
        `Skip 1, release ${lane.waiting}`,
      );
      if (note) await call("POST", `dead-letters/${lane.dead_letter}/skip`, { note });
    }
    // The stream tells how the lane goes on; only what was skipped has to be asked for.
    if (what === "skip") board.settle(await call("GET", `lanes/${lane.endpoint}/${encodeURIComponent(lane.key)}`));
  } catch (error) {
    await tell("That did not work", error.message);
  }
}

function totals(overview) {
  write($("verdict"), overview.verdict);
  $("verdict").dataset.state = overview.lanes.blocked ? "blocked" : overview.lanes.retrying ? "retrying" : "ok";
  controls?.blocked(overview.lanes.blocked);
  const list = $("totals");
  if (!list.children.length) {
    for (const name of TOTALS) list.append(h("div", { "data-total": name }, h("dt", {}, name), h("dd", {})));
  }
  for (const name of TOTALS) {
    const count = name === "queued" ? (overview.ledger.queued ?? 0) + (overview.ledger.in_flight ?? 0) : overview.ledger[name] ?? 0;
    write(list.querySelector(`[data-total=${name}] dd`), count.toLocaleString("en"));
    list.querySelector(`[data-total=${name}]`).classList.toggle("some", count > 0);
  }
}

function log(items) {
  const list = $("log");
  for (const one of items.slice(-LOG_MAX)) {
    const state = { delivered: "delivered", retry: "retrying", dead: "dead" }[one.outcome];
    const result = one.status ?? one.failure ?? "?";
    const detail = one.outcome === "retry" ? `try ${one.attempt}/${one.attempts_max}` : one.said ?? "";
    list.prepend(
      h(
        "li",
        { "data-state": state },
        h("time", { datetime: one.started_at }, one.started_at.slice(11, 19)),
        icon(state),
        h("span", { class: "type" }, one.type),
        h("span", { class: "place" }, one.key === null ? "no key" : `${one.key} #${one.seq}`),
        h("span", { class: "result" }, one.took_ms === null ? result : `${result} · ${one.took_ms} ms`),
        h("span", { class: "detail" }, detail),
      ),
    );
  }
  while (list.children.length > LOG_MAX) list.lastElementChild.remove();
}

function empty() {
  const none = $("empty");
  none.hidden = board.size > 0;
  if (board.size || none.children.length) return;
  none.append(
    h("p", {}, "No lanes yet. Tell hooklane where to deliver, then send an event:"),
    h("pre", {}, "hooklane endpoints add http://127.0.0.1:8000/webhooks\nhooklane send order.created '{\"id\": 1}' --key order:1"),
  );
}

function pill() {
  const live = $("live");
  const word = paused
    ? `Paused${held.length ? ` (${held.length} new)` : ""}`
    : connection === "live"
      ? "Live"
      : `Reconnecting, as of ${asOf.toLocaleTimeString("en-GB")}`;
  write(live, word);
  live.dataset.state = paused ? "paused" : connection;
  live.setAttribute("aria-pressed", String(paused));
  live.title = paused ? "Go on (space)" : "Pause (space)";
}

function toggle() {
  paused = !paused;
  release();
  pill();
}

/** Take in what was held back, unless it still is. */
function release() {
  if (paused || loading) return;
  const missed = held;
  held = [];
  for (const [kind, value] of missed) take(kind, value);
}

$("live").addEventListener("click", toggle);
$("search").addEventListener("input", (event) => board.filter(event.target.value));
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  logIn($("key-input").value).then(
    () => location.reload(),
    (error) => write($("verdict"), error.message),
  );
});
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, button, a, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " ") {
    event.preventDefault();
    toggle();
  }
  if (event.key === "/") {
    event.preventDefault();
    $("search").focus();
  }
});
for (const state of ["queued", "in_flight", "retrying", "delivered", "waiting", "dead", "skipped"]) {
  $("legend").append(h("li", {}, h("span", { class: "cell", "data-state": state }, icon(state)), WORDS[state]));
}
setInterval(() => board.tick(), 1000);
load();
follow(take, (word) => {
  connection = word;
  pill();
});
