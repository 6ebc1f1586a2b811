// Lanes: what waits, what moves, what is stuck, and the way out. The screen that the demo opens on.

import { get } from "./api.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./kit.js";
import { DRAWN_MAX, LaneModel } from "./lane_model.js";
import { LaneRow, measured } from "./lane_row.js";
import { clock, earlierLanes, hear, inPortal, locked, overview, useLoad } from "./live.js";
import { Chip, Choice, Command, Empty, Failed, Icon, later, Opener, Search, Segments, Skeleton } from "./parts.js";
import { setQuery } from "./route.js";
import { Screen } from "./shell.js";
import { compact, counted, LANE_STATES, number, since } from "./words.js";

const PAGE = 200;
/** So long a search goes on by itself; the server looks at a bounded part of the lanes in each call. */
const SEARCH_MS = 4000;
const IDLE_SHOWN = 20;
/** Some more than are shown, to take the places of those that begin to move. */
const IDLE_KEPT = 60;
/** So many rows come frame by frame, the rest when the browser has time, or after a while. More than a screen: of a thousand lanes few move at a time, and the more are drawn, the sooner one is seen to move. */
const AT_ONCE = 64;
/** So many rows that are new to the board are drawn in one frame at first, and later in one turn. */
const [NEW_ROWS_MAX, LATER_ROWS_MAX] = [8, 4];
const IDLE_MS_MAX = 100;
const LanePanel = later(() => import("./lane_panel.js"), "LanePanel");
const ReplayDialog = later(() => import("./resolve.js"), "ReplayDialog");
const Demo = later(() => import("./demo.js"), "Demo");
const SAYS = {
  blocked: "oldest first; nothing moves until you replay or skip",
  retrying: "the sender tries again by itself",
  paused: "the endpoint is paused; everything is kept",
  active: "on their way, or lately so",
  idle: "everything delivered",
};
const ICONS = { blocked: "dead", retrying: "retrying", paused: "paused", active: "in_flight", idle: "delivered" };
const CHIPS = { blocked: "blocked", retrying: "retrying", paused: "waiting", active: "in_flight", idle: "delivered" };

/** A search that looked at much ends its page early: go on until there are enough, all were seen, or *isOver*; *part* is told. */
async function found(query, most, isOver, part) {
  const lanes = [];
  let cursor;
  while (cursor !== null && lanes.length < most && !isOver()) {
    const page = await get("lanes", { ...query, limit: Math.min(PAGE, most - lanes.length), cursor });
    lanes.push(...page.items);
    cursor = page.next;
    if (cursor !== null && lanes.length) part(lanes);
  }
  return { lanes, isWhole: cursor === null || lanes.length >= most };
}

/** Those that need attention or move, and where there is room, some that are idle; whether all lanes were looked at. */
async function fetchLanes({ endpoint, q, states }, isLatest, part) {
  const until = Date.now() + SEARCH_MS;
  const isOver = () => Date.now() > until || !isLatest();
  if (states) return found({ endpoint, q, state: states.join(","), order: "attention" }, DRAWN_MAX, isOver, part);
  const [loud, idle] = await Promise.all([
    found({ endpoint, q, order: "attention" }, DRAWN_MAX, isOver, part),
    found({ endpoint, q, state: "idle" }, q ? DRAWN_MAX : IDLE_KEPT, isOver, () => {}),
  ]);
  return { lanes: [...loud.lanes, ...idle.lanes].slice(0, DRAWN_MAX), isWhole: loud.isWhole && idle.isWhole };
}

export default function Lanes({ query }) {
  const model = useMemo(() => new LaneModel(), []);
  const filter = { endpoint: query.endpoint, q: query.q, states: query.state ? query.state.split(",") : undefined };
  const load = useLoad(async () => {
    const mine = model.begin();
    try {
      const isFirst = !model.rows.size;
      const part = (some) => isFirst && model.load(mine, some, filter, false);
      const { lanes, isWhole } = await fetchLanes(filter, () => model.loading === mine, part);
      model.load(mine, lanes, filter);
      return { isWhole };
    } catch (error) {
      model.fail(mine);
      throw error;
    }
  }, [filter]);
  useEffect(() => {
    const stops = [hear("lanes", ({ items }) => model.merge(items)), hear("attempts", ({ items }) => model.attempted(items))];
    for (const { items } of earlierLanes()) model.merge(items);
    const timer = setInterval(() => model.settle(), 500);
    return () => (clearInterval(timer), stops.forEach((stop) => stop()));
  }, []);
  // What a press opens is fetched when the board stands, before it is pressed.
  useEffect(() => (load.value ? void whenIdle(() => import("./lane_panel.js").catch(() => {}), 2000) : undefined), [Boolean(load.value)]);
  function close() {
    const had = document.activeElement?.closest("aside");
    const row = had && [...document.querySelectorAll("[data-lane]")].find((one) => one.dataset.lane === query.lane);
    setQuery({ lane: null });
    row?.focus(); // what had the focus goes with the panel
  }
  const lanes = overview.value?.lanes ?? {};
  const sub = overview.value && lanesSub(lanes);
  const groups = model.groups.value;
  return html`<${Screen} title="Lanes" sub=${sub}>
    ${overview.value?.features?.includes("demo") && html`<${Demo} wait=${html`<section class="card strip" aria-label="Demo"><b>Demo</b></section>`} />`}
    <${Bar} query=${query} lanes=${lanes} />
    ${load.error && !locked.value && html`<${Failed} error=${load.error} again=${load.again} what="The lanes" />`}
    <div class=${query.lane ? "split" : ""}>
      <div class="grid">
        ${groups.length ? html`<${Board} groups=${groups} query=${query} lanes=${lanes} />` : load.value === undefined && !load.error ? html`<${Skeleton} rows=${8} />` : !load.error && html`<${NoLanes} query=${query} lanes=${lanes} isWhole=${load.value?.isWhole} />`}
        ${groups.length > 0 && load.value?.isWhole === false && html`<p class="faint">Not all ${counted(sumOf(lanes), "lane")} were searched within ${SEARCH_MS / 1000} s. More of the key finds it sooner.</p>`}
      </div>
      ${query.lane && html`<${LanePanel} key=${query.lane} name=${query.lane} row=${model.rows.get(query.lane)} close=${close} />`}
    </div>
  </${Screen}>`;
}

function lanesSub(lanes) {
  return `${counted(sumOf(lanes), "lane")}, ${number(overview.value.ledger.delivered)} delivered`;
}

const sumOf = (lanes) => Object.values(lanes).reduce((sum, many) => sum + many, 0);

function Bar({ query, lanes }) {
  const badge = (state, bad) => lanes[state] > 0 && html`<span class=${`badge ${bad ? "bad" : ""}`}>${compact(lanes[state])}</span>`;
  const endpoints = overview.value?.endpoints ?? [];
  return html`<div class="bar">
    <${Segments} label="State" value=${query.state ?? ""} choose=${(state) => setQuery({ state: state || null })}
      options=${[["", html`<span>Needs attention<span class="hide-s"> first</span></span>`], ["blocked", "Blocked", badge("blocked", true)], ["retrying", "Retrying", badge("retrying")], ...(lanes.paused ? [["paused", "Paused", badge("paused")]] : [])]} />
    ${endpoints.length > 1 && html`<${Choice} label="Endpoint" value=${query.endpoint ?? ""} choose=${(endpoint) => setQuery({ endpoint: endpoint || null })} options=${[["", "all"], ...endpoints.map((one) => [one.id, one.name || one.id])]} />`}
    <${Search} label="Key, part of a key" value=${query.q} change=${(q) => setQuery({ q: q || null }, { replace: true })} />
    <span class="grow"></span>
    <button class="btn hide-s" type="button" aria-pressed=${String(query.as === "table")} onClick=${() => setQuery({ as: query.as === "table" ? null : "table" })}><${Icon} name="table" />As a table</button>
  </div>`;
}

function Board({ groups, query, lanes }) {
  let room = DRAWN_MAX;
  const shown = groups.map(({ group, rows }) => {
    const most = group === "idle" && !query.state && !query.q ? Math.min(room, IDLE_SHOWN) : room;
    const taken = rows.slice(0, most);
    room -= taken.length;
    return { group, rows: taken, all: Math.max(rows.length, query.q || query.endpoint ? 0 : (lanes[group] ?? 0)) };
  });
  const isDrawn = useFewAtATime(shown.flatMap(({ rows }) => rows.map((row) => row.name)));
  const quiet = shown.find(({ group }) => group === "idle");
  const hidden = (lanes.idle ?? 0) - (quiet?.rows.length ?? 0) - movingIdle(groups);
  if (query.as === "table") return html`<${Table} rows=${shown.flatMap(({ rows }) => rows).filter((row) => isDrawn.has(row.name))} />`;
  return html`<div class="card board">
    <div class="cols" aria-hidden="true"><span>Key</span><span>Sender queue</span><span ref=${measured}>In flight</span><span>Consumer</span><span></span></div>
    ${shown.filter(({ rows }) => rows.length).map(({ group, rows, all }) => html`<div class="group" key=${`${group}-head`}><${Chip} state=${CHIPS[group]} icon=${ICONS[group]}>${LANE_STATES[group]}</${Chip}>
        <span class="num">${rows.length < all && group !== "active" && group !== "idle" ? `${number(rows.length)} of ${counted(all, "lane")}` : counted(rows.length, "lane")}</span><span class="faint">${SAYS[group]}</span>
        <span class="grow"></span>${group === "blocked" && rows.length > 1 && html`<${ResolveAll} many=${query.endpoint ? all : (lanes.blocked ?? all)} endpoint=${query.endpoint} />`}</div>
      <ul key=${group} aria-label=${`${LANE_STATES[group]} lanes`}>${rows.filter((row) => isDrawn.has(row.name)).map((row) => html`<${LaneRow} key=${row.name} row=${row} chosen=${row.name === query.lane} />`)}</ul>`)}
    ${hidden > 0 && !query.q && !query.endpoint && !query.state && html`<div class="quiet-lanes"><span class="num"><b>${number(hidden)}</b> quiet ${hidden === 1 ? "lane" : "lanes"}: everything delivered</span><span class="grow"></span>
      <button class="btn small quiet" type="button" onClick=${() => setQuery({ state: "idle" })}>Show</button></div>`}
    ${room <= 0 && html`<div class="quiet-lanes">At most ${DRAWN_MAX} lanes are drawn; search for the others.</div>`}
  </div>`;
}

/** Which of *names* to draw now: those that are drawn already, and in each frame a few more. 200 at once are a long task. */
function useFewAtATime(names) {
  const before = useRef(new Set());
  const [, redraw] = useState(0);
  let left = before.current.size < AT_ONCE ? NEW_ROWS_MAX : LATER_ROWS_MAX;
  const now = new Set(names.filter((name) => before.current.has(name) || left-- > 0));
  useLayoutEffect(() => {
    before.current = now;
    if (now.size === names.length) return undefined;
    const draw = () => redraw((count) => count + 1);
    if (now.size >= AT_ONCE) return whenIdle(draw, IDLE_MS_MAX);
    const frame = requestAnimationFrame(draw);
    return () => cancelAnimationFrame(frame);
  });
  return now;
}

/** When the browser has nothing else to do, or after *ms*; returns a function to stop. */
function whenIdle(act, ms) {
  const wait = self.requestIdleCallback ? requestIdleCallback(act, { timeout: ms }) : setTimeout(act, ms);
  return () => (self.cancelIdleCallback ?? clearTimeout)(wait);
}

/** A button that opens the dialog for everything that is dead. */
function ResolveAll({ many, endpoint }) {
  const [open, setOpen] = useState(false);
  if (!many || inPortal()) return null;
  return html`<${Opener} class="small" open=${() => setOpen(true)}><span>Resolve ${many === 1 ? "it" : html`all<span class="hide-s"> ${number(many)}</span>`}…</span></${Opener}>
    ${open && html`<${ReplayDialog} wanted=${{ filter: { state: "dead", ...(endpoint ? { endpoint } : {}) } }} close=${() => setOpen(false)} />`}`;
}

const movingIdle = (groups) => groups.find(({ group }) => group === "active")?.rows.filter((row) => row.lane.peek().state === "idle").length ?? 0;

/** The same without a picture: for screen readers, for copying, and for who likes tables. */
function Table({ rows }) {
  return html`<div class="card tbl-wrap"><table class="tbl cards"><thead><tr><th>Key</th><th>Endpoint</th><th>State</th><th class="r">Head</th><th class="r">Waiting</th><th class="r">Since</th><th>Reason</th></tr></thead>
    <tbody>${rows.map((row) => html`<${TableRow} key=${row.name} row=${row} />`)}</tbody></table></div>`;
}

function TableRow({ row }) {
  const lane = row.lane.value;
  return html`<tr><td class="mono ell any c-head"><button class="link mono ell block" type="button" data-row onClick=${() => setQuery({ lane: row.name })}><bdi>${lane.key}</bdi></button></td><td class="c-main faint ell">${lane.endpoint_name || lane.endpoint}</td>
    <td class="c-side"><${Chip} state=${CHIPS[lane.state]} icon=${ICONS[lane.state]}>${LANE_STATES[lane.state]}</${Chip}></td>
    <td class="r" data-k="head">#${lane.head}</td><td class="r" data-k="waiting">${number(lane.waiting)}</td><td class="r" data-k="since">${since(lane.since, clock.value) || "–"}</td><td data-k=${lane.reason ? "reason" : undefined}>${lane.reason ?? ""}</td></tr>`;
}

function NoLanes({ query, lanes, isWhole }) {
  if (query.q || query.state || query.endpoint) {
    const what = query.q ? `No lane holds “${query.q}” among ${isWhole === false ? "those searched so far" : number(sumOf(lanes))}` : query.state ? `No lane is ${query.state}` : "No lane at this endpoint";
    return html`<${Empty} title=${what} icon=${query.state === "blocked" ? "delivered" : "n-events"}>
      <p>${query.state === "blocked" && !query.q ? "Nothing waits for you." : ""}</p><button class="btn" type="button" onClick=${() => setQuery({ q: null, state: null, endpoint: null })}>Clear the search</button></${Empty}>`;
  }
  const hasEndpoint = overview.value?.endpoints?.length > 0;
  return html`<${Empty} title="No lanes yet"><p>A lane is one key at one endpoint: its events are sent one after the other.${hasEndpoint ? " Send an event:" : " Tell hooklane where to deliver, then send an event:"}</p>
    ${!hasEndpoint && html`<${Command} text="hooklane endpoints add http://127.0.0.1:8000/webhooks" />`}
    <${Command} text=${`hooklane send order.created '{"id": 1}' --key order:1`} /></${Empty}>`;
}
