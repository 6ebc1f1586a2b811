// Overview: is anything stuck, and what do I do? The answer in five seconds.

import { get } from "./api.js";
import { Spark } from "./chart.js";
import { EndpointState } from "./endpoints.js";
import { Charts, fetchSeries, valuesOf } from "./figures.js";
import { Hour, useHours } from "./hour.js";
import { html } from "./kit.js";
import { clock, inPortal, overview as totals, useLoad } from "./live.js";
import { Command, Failed, Icon, Segments, Skeleton } from "./parts.js";
import { href, setQuery } from "./route.js";
import { Screen } from "./shell.js";
import { counted, millis, millisText, number, percent, rate, shortUrl, since } from "./words.js";

const RANGES = [["15m", "15 m"], ["1h", "1 h"], ["24h", "24 h"], ["7d", "7 d"]];
const WORDS = { "15m": "last 15 minutes", "1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days" };

export default function Overview({ query }) {
  const range = WORDS[query.range] ? query.range : "1h";
  const load = useLoad(() => get("overview", { range }), [range], { everyMs: 5000 });
  const series = useLoad(() => fetchSeries(range), [range], { everyMs: 10_000 });
  const endpoints = useLoad(() => get("endpoints"), [], { everyMs: 5000, on: ["endpoints"] });
  // The stream's totals are newer than what was fetched; the figures of the range are not in it.
  const all = load.value && { ...load.value, ...(totals.value ? { ledger: totals.value.ledger, lanes: totals.value.lanes } : {}) };
  const actions = html`<span class="hide-s"><${Segments} label="Range" value=${range} options=${RANGES} choose=${(one) => setQuery({ range: one === "1h" ? null : one })} /></span>`;
  return html`<${Screen} title="Overview" actions=${actions}>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="The overview" />`}
    ${!all && !load.error && html`<${Skeleton} rows=${6} />`}
    ${all && html`<${Verdict} all=${all} /><${Tiles} all=${all} series=${series.value} />
      ${all.ledger.accepted > 0 && series.value && html`<${Charts} series=${series.value} />`}
      <div class="cols2 wide-left"><${Reasons} all=${all} word=${WORDS[range]} /><${EndpointTable} items=${endpoints.value?.items ?? []} /></div>`}
  </${Screen}>`;
}

function Verdict({ all }) {
  const { blocked = 0, retrying = 0, paused = 0 } = all.lanes;
  const lanes = Object.values(all.lanes).reduce((sum, many) => sum + many, 0);
  const { oldest } = all;
  const flowing = lanes - blocked;
  const dead = all.ledger.dead ?? 0;
  const review = html`<a class="btn danger" href=${href("/dead")}>Review ${counted(dead, "dead letter")}<${Icon} name="right" /></a>`;
  if (blocked) {
    return html`<section class="verdict" data-tone="bad" aria-label="Verdict"><span class="sym"><${Icon} name="dead" /></span><div class="grow"><p class="big">${counted(blocked, "key")} ${blocked === 1 ? "is" : "are"} blocked${oldest?.since ? `${blocked === 1 ? "" : ", the oldest"} for ${since(oldest.since, clock.value)}` : ""}</p>
      ${oldest && html`<p><a class="mono ell" dir="auto" title=${oldest.key} href=${href("/lanes", { lane: `${oldest.endpoint}/${oldest.key}` })}>${oldest.key}</a> stands behind #${oldest.head}, which died: ${oldest.reason}${oldest.said ? ` “${oldest.said}”` : ""}. ${counted(all.waiting_behind_blocked ?? oldest.waiting, "event")} ${(all.waiting_behind_blocked ?? oldest.waiting) === 1 ? "waits" : "wait"}${flowing ? `; the other ${counted(flowing, "lane")} ${flowing === 1 ? "flows" : "flow"}` : ""}.</p>`}</div>
      ${review}</section>`;
  }
  if (dead) {
    return html`<section class="verdict" data-tone="bad" aria-label="Verdict"><span class="sym"><${Icon} name="dead" /></span><div class="grow"><p class="big">${counted(dead, "dead letter")} ${dead === 1 ? "waits" : "wait"} for you</p><p>${dead === 1 ? "It has" : "They have"} no order, so no key is blocked; nothing is sent again until you replay or skip ${dead === 1 ? "it" : "them"}.</p></div>
      ${review}</section>`;
  }
  if (retrying || paused) {
    return html`<section class="verdict" data-tone="retry" aria-label="Verdict"><span class="sym"><${Icon} name="retrying" /></span><div class="grow"><p class="big">Nothing is stuck</p><p>${[retrying && `${counted(retrying, "lane")} ${retrying === 1 ? "is" : "are"} retrying by ${retrying === 1 ? "itself" : "themselves"}`, paused && `${counted(paused, "lane")} ${paused === 1 ? "is" : "are"} paused`].filter(Boolean).join("; ")}.${oldest ? ` The oldest: ${oldest.key}, ${oldest.reason ?? "waiting"}.` : ""}</p></div>
      <a class="btn" href=${href("/lanes")}>Watch the lanes<${Icon} name="right" /></a></section>`;
  }
  if (!all.ledger.accepted && inPortal()) {
    return html`<section class="verdict" data-tone="calm" aria-label="Verdict"><span class="sym"><${Icon} name="n-lanes" /></span><div class="grow"><p class="big">Ready. Nothing was sent to you yet</p><p>${all.endpoints.length ? "Your endpoint is there; a test shows that it answers." : "Say where your events are to go."}</p></div>
      <a class="btn primary" href=${href("/endpoints", all.endpoints.length ? {} : { add: "1" })}>${all.endpoints.length ? "Your endpoints" : "Add an endpoint"}<${Icon} name="right" /></a></section>`;
  }
  if (!all.ledger.accepted) {
    return html`<section class="verdict" data-tone="calm" aria-label="Verdict"><span class="sym"><${Icon} name="n-lanes" /></span><div class="grow"><p class="big">Ready. Nothing was published yet</p><p>${all.endpoints.length ? "Send an event:" : "Tell hooklane where to deliver, then send an event:"}</p>
      <div class="bar">${!all.endpoints.length && html`<${Command} text="hooklane endpoints add http://127.0.0.1:8000/webhooks" />`}<${Command} text=${`hooklane send order.created '{"id": 1}' --key order:1`} /></div></div></section>`;
  }
  return html`<section class="verdict" data-tone="good" aria-label="Verdict"><span class="sym"><${Icon} name="delivered" /></span><div class="grow"><p class="big">Healthy</p><p>${lanes ? `${counted(lanes, "lane")} ${lanes === 1 ? "flows" : "flow"}; nothing` : "Nothing"} is blocked, nothing waits for you.</p></div>
    <a class="btn" href=${href("/lanes")}>Watch the lanes<${Icon} name="right" /></a></section>`;
}

function Tile({ name, value, unit, note, values, tone, to }) {
  const body = html`<span class="dt">${name}</span><span class="dd">${value}${unit ? html` <small>${unit}</small>` : ""}</span><${Spark} values=${values} tone=${tone} /><span class="note">${note}</span>`;
  return to ? html`<a class="card tile" href=${to}>${body}</a>` : html`<div class="card tile">${body}</div>`;
}

function Tiles({ all, series }) {
  const backlog = (all.ledger.queued ?? 0) + (all.ledger.in_flight ?? 0) + (all.ledger.retrying ?? 0);
  const [p95, unit] = millis(all.delivery_ms.p95);
  const saved = all.duplicates + all.stale;
  const share = (value, unitText) => (value === null ? "" : unitText);
  const succeeded = valuesOf(series, "attempts", "delivered")?.map((good, at) => {
    const dead = valuesOf(series, "attempts", "dead")[at];
    return good === null || good + dead === 0 ? null : good / (good + dead);
  });
  const savedOver = valuesOf(series, "duplicates")?.map((value, at) => (value ?? 0) + (valuesOf(series, "stale")?.[at] ?? 0));
  return html`<div class="tiles">
    <${Tile} name="Events in" value=${rate(all.rates.in)} unit="/s" note=${`${number(all.published)} published`} values=${valuesOf(series, "published")} tone="flight" to=${href("/events")} />
    <${Tile} name="Delivered" value=${rate(all.rates.delivered)} unit="/s" note=${all.first_try === null ? "nothing in the range" : `${percent(all.first_try)} % at the first try`} values=${valuesOf(series, "attempts", "delivered")} tone="good" />
    <${Tile} name="End to end, p95" value=${p95} unit=${unit} note=${`p50 ${millisText(all.delivery_ms.p50)} · p99 ${millisText(all.delivery_ms.p99)} · try p95 ${millisText(all.attempt_ms.p95)}`} values=${valuesOf(series, "delivery_ms", "p95")} tone="accent" />
    <${Tile} name="Succeeded in the end" value=${percent(all.eventual)} unit=${share(all.eventual, "%")} note=${`${number(all.delivered)} delivered`} values=${succeeded} tone="good" />
    <${Tile} name="Backlog" value=${number(backlog)} note=${all.oldest_pending_at ? `the oldest waits ${since(all.oldest_pending_at, clock.value)}` : "nothing waits"} values=${valuesOf(series, "backlog")} tone="retry" to=${href("/lanes")} />
    <${Tile} name="Blocked keys" value=${number(all.lanes.blocked ?? 0)} note=${all.lanes.blocked ? `${counted(all.waiting_behind_blocked ?? 0, "event")} behind them` : "no key is stuck"} values=${valuesOf(series, "blocked")} tone="bad" to=${href("/lanes", { state: "blocked" })} />
    <${Tile} name="Dead letters" value=${number(all.ledger.dead ?? 0)} note=${all.ledger.skipped ? `${number(all.ledger.skipped)} skipped so far` : all.ledger.dead ? "replay or skip" : "nothing was given up"} values=${valuesOf(series, "dead")} tone="bad" to=${href("/dead")} />
    <${Tile} name="Saved you" value=${number(saved)} note=${`${counted(all.duplicates, "duplicate")}, ${counted(all.stale, "stale write")}`} values=${savedOver} tone="good" />
  </div>`;
}

function Reasons({ all, word }) {
  const most = Math.max(1, ...all.top_reasons.map((one) => one.count));
  return html`<section class="card"><div class="title"><h2>Top reasons for a failed try</h2><span class="grow"></span><span class="faint">${word}</span></div>
    ${all.top_reasons.length ? html`<ul class="reasons">${all.top_reasons.slice(0, 6).map((one) => html`<li><a class="ell" href=${href("/events", { q: one.reason === "other" ? null : `reason:${one.reason.replaceAll(/\s/g, "?")}`, endpoint: one.endpoint })}><b>${one.reason}</b> <span class="faint">${one.endpoint_name || one.endpoint}</span></a><span class="num">${number(one.count)}</span>
      <svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect width="100" height="4" class="f-soft" /><rect width=${Math.max(1, (one.count / most) * 100)} height="4" class=${/^4/.test(one.reason) ? "f-bad" : "f-retry"} /></svg></li>`)}</ul>` : html`<p class="pad-all faint">No try has failed.</p>`}</section>`;
}

function EndpointTable({ items }) {
  const hours = useHours(items.slice(0, 8).map((one) => one.id));
  return html`<section class="card"><div class="title"><h2>Endpoints</h2></div>${items.length ? html`<div class="tbl-wrap"><table class="tbl cards"><thead><tr><th>Endpoint</th><th>State</th><th>Last hour</th><th class="r">Success</th><th class="r">p95</th><th class="r">Backlog</th><th class="r">Blocked</th></tr></thead>
    <tbody>${items.slice(0, 8).map((one) => html`<tr key=${one.id}><td class="c-head"><a class="ell block" href=${href(`/endpoints/${one.id}`)}><b>${one.name || one.id}</b></a><span class="faint ell block">${shortUrl(one.url)}</span></td><td class="c-side"><${EndpointState} one=${one} /></td><td class="c-hour"><${Hour} hour=${hours[one.id]} /></td>
      <td class="r" data-k="success">${percent(one.stats?.success)}${one.stats && one.stats.success !== null ? " %" : ""}</td><td class="r" data-k="p95">${millisText(one.stats?.p95_ms)}</td><td class="r" data-k="backlog">${number(one.stats?.backlog)}</td><td class="r" data-k="blocked">${one.stats?.blocked ? html`<b class="bad">${number(one.stats.blocked)}</b>` : number(one.stats?.blocked)}</td></tr>`)}</tbody></table></div>` : html`<p class="pad-all faint">No endpoint yet.</p>`}</section>`;
}
