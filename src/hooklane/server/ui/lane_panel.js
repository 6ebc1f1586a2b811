// One lane in full: why it waits, its line, its tries on a time axis, what comes next, and what the consumer says.

import { get, lanePath } from "./api.js";
import { CopyAs } from "./copy_as.js";
import { html, useEffect, useState } from "./kit.js";
import { headState } from "./lane_row.js";
import { clock, hear, inPortal, useLoad } from "./live.js";
import { Act, Cell, Chip, Failed, Icon, LONG, Opener, Skeleton, Why } from "./parts.js";
import { replayOne, SkipDialog } from "./resolve.js";
import { href } from "./route.js";
import { TriesAxis } from "./tries.js";
import { atTime, counted, LANE_STATES, number, resultOf, since, span, tries, until } from "./words.js";

const LINE_BEFORE = 5;
const LINE_BEHIND = 4;
const CHIPS = { blocked: ["blocked", "dead"], retrying: ["retrying", "retrying"], paused: ["waiting", "paused"], active: ["in_flight", "in_flight"], idle: ["delivered", "delivered"] };

const laneOf = (name) => ({ endpoint: name.slice(0, name.indexOf("/")), key: name.slice(name.indexOf("/") + 1) });

async function fetchLane(name) {
  const lane = await get(lanePath(laneOf(name)));
  const shown = lane.head_event ?? lane.deliveries?.at(-1)?.event;
  const attempts = shown ? await get(`events/${shown}/attempts`).catch(() => ({ items: [] })) : { items: [] };
  return { lane, attempts: attempts.items.filter((one) => one.endpoint === lane.endpoint) };
}

export function LanePanel({ name, row, close }) {
  const load = useLoad(() => fetchLane(name), [name]);
  const [skip, setSkip] = useState(null);
  // The stream says that something moved; what exactly, the server is asked.
  useEffect(() => hear("lanes", ({ items }) => items.some((lane) => `${lane.endpoint}/${lane.key}` === name) && load.soon()), [name]);
  const { key } = laneOf(name);
  const lane = load.value && { ...load.value.lane, ...(row?.lane.value.head === load.value.lane.head ? row.lane.value : {}) };
  return html`<aside class="card side" aria-label=${`Lane ${key}`}>
    <section><div class="row top"><h2 class=${`grow any ${key.length > LONG ? "long" : ""}`} dir="auto">${key}</h2>${lane?.head_event && html`<${CopyAs} event=${lane.head_event} letter=${lane.state === "blocked" ? lane.dead_letter : null} small />`}<button class="btn small quiet" type="button" data-close aria-label="Close the panel" onClick=${close}><${Icon} name="close" /></button></div>
      ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="This lane" />`}
      ${!lane && !load.error && html`<${Skeleton} rows=${3} />`}
      ${lane && html`<${Head} lane=${lane} skip=${() => setSkip(lane)} again=${load.again} />`}</section>
    ${lane && html`<${Line} lane=${lane} /><${Tries} lane=${lane} attempts=${load.value.attempts} /><${Forecast} lane=${lane} /><${Consumer} lane=${lane} />`}
    ${skip && html`<${SkipDialog} letter=${skip.dead_letter} lane=${skip} close=${() => (setSkip(null), load.again())} />`}
  </aside>`;
}

function Head({ lane, skip, again }) {
  const [state, icon] = CHIPS[lane.state];
  const isDead = lane.state === "blocked" && lane.dead_letter;
  return html`<div class="row"><${Chip} state=${state} icon=${icon}>${LANE_STATES[lane.state]} ${lane.state === "blocked" || lane.state === "retrying" ? since(lane.since, clock.value) : ""}</${Chip}>
      <span class="mute">at <a class="link" href=${href(`/endpoints/${lane.endpoint}`)}>${lane.endpoint_name || lane.endpoint}</a></span></div>
    <${Why} text=${lane.why} key_=${lane.key} state=${lane.state} />
    ${isDead && html`<div class="row"><${Act} class="primary" data-replay run=${async () => (await replayOne(lane.dead_letter), again())}>Replay #${lane.head}</${Act}>
      ${!inPortal() && html`<${Opener} open=${skip}>Skip #${lane.head}…</${Opener}>`}</div>`}`;
}

function Line({ lane }) {
  const known = new Map((lane.deliveries ?? []).map((one) => [one.seq, one]));
  const isStuck = lane.state === "blocked" || lane.state === "retrying";
  const last = Math.min(lane.tail, lane.head + LINE_BEHIND);
  const rows = [];
  if (lane.tail > last) rows.push(html`<li class="fold faint">${counted(lane.tail - last, "more event")} behind #${last}</li>`);
  for (let seq = last; seq >= Math.max(1, lane.head - LINE_BEFORE); seq--) {
    const one = known.get(seq);
    const state = seq > lane.head ? (isStuck ? "waiting" : "queued") : seq === lane.head ? headState(lane) : (one?.state ?? "delivered");
    const says = seq > lane.head ? `waits for #${lane.head}` : seq === lane.head ? (lane.attempts ? tries(lane.attempts) : "next") : state;
    rows.push(html`<li key=${seq}><${Cell} seq=${seq} state=${state} />${one ? html`<a class="ell link" href=${href(`/events/${one.event}`)}>${one.type ?? one.event}</a>` : html`<span class="ell">${seq === lane.head ? lane.head_type : ""}</span>`}<span class="faint">${says}</span></li>`);
    if (seq === lane.head + 1 || (seq === lane.head && lane.tail === lane.head)) {
      const gate = { blocked: `gate shut since ${atTime(lane.since)}`, retrying: "gate held until it lands", paused: "paused" }[lane.state];
      if (gate && seq > lane.head) rows.push(html`<li class="gate" data-state=${lane.state}><span>${gate}</span></li>`);
    }
  }
  return html`<section><h3>Line <span class="faint">${lane.head > lane.tail ? "all delivered" : `next expected: #${lane.head}`}</span></h3><ol class="seqs">${rows}</ol></section>`;
}

function Tries({ lane, attempts }) {
  if (!attempts.length) return null;
  const first = attempts[0];
  const last = attempts.at(-1);
  return html`<section><h3>Tries of #${first.seq ?? lane.head} <span class="faint">${attempts.length === 1 ? tries(1) : `${attempts.length} over ${span(Date.parse(last.started_at) - Date.parse(first.started_at))}`}</span></h3>
    <${TriesAxis} attempts=${attempts} forecast=${lane.forecast} />
    <ol class="attempts">${attempts.slice(-4).reverse().map((one) => html`<li key=${one.id}><${Chip} state=${{ delivered: "delivered", retry: "retrying", dead: "dead" }[one.outcome]}>${resultOf(one)}</${Chip}><span class="grow ell faint">${one.detail?.response_body ?? ""}</span><span class="num faint">try ${one.attempt}, ${atTime(one.started_at)}</span></li>`)}</ol></section>`;
}

function Forecast({ lane }) {
  const coming = lane.forecast ?? [];
  if (!coming.length || lane.state !== "retrying") return null;
  return html`<section><h3>What comes next <span class="faint">${counted(coming.length, "try", "tries")} left</span></h3><dl class="kv">
    ${coming.slice(0, 4).map((one) => html`<dt>Try ${one.try}</dt><dd class="num">${until(one.from, clock.value)} – ${until(one.to, clock.value)}</dd>`)}
    ${lane.dies_between && html`<dt>Would die</dt><dd class="num">${until(lane.dies_between.from, clock.value)} at the earliest</dd>`}</dl></section>`;
}

function Consumer({ lane }) {
  const said = lane.consumer;
  if (!said?.outcome && !said?.last_applied) return html`<section><h3>What the consumer says</h3><p class="faint">Nothing yet: a receiver that runs hooklane answers with what it did (applied, duplicate, stale).</p></section>`;
  return html`<section><h3>What the consumer says</h3><dl class="kv">
    <dt>Last applied</dt><dd class="num">${said.last_applied ? `#${said.last_applied}` : "–"}</dd><dt>Duplicates suppressed</dt><dd class="num">${number(said.duplicates)}</dd><dt>Last outcome</dt><dd>${said.outcome ?? "–"}</dd></dl></section>`;
}
