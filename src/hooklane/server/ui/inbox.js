// Inbox: what was received, and what became of it, with the proof.

import { get } from "./api.js";
import { html } from "./kit.js";
import { useLoad } from "./live.js";
import { usePages } from "./pages.js";
import { Ago, Chip, Choice, Command, Empty, Failed, Icon, Skeleton } from "./parts.js";
import { href, setQuery } from "./route.js";
import { Screen } from "./shell.js";
import { counted, millisText, number, rate } from "./words.js";

const STATUSES = ["pending", "in_progress", "completed", "failed", "dead", "held", "stale", "conflict", "ignored", "too_old"];
const PAGE = 50;
export const CHIP = { completed: "delivered", dead: "dead", failed: "retrying", held: "held", in_progress: "in_flight", conflict: "retrying", stale: "skipped", too_old: "skipped" };
export const ICON = { completed: "delivered", dead: "dead", failed: "retrying", held: "waiting", in_progress: "in_flight", pending: "queued", stale: "skipped", conflict: "warn", ignored: "skipped", too_old: "skipped" };

async function fetchSources() {
  const [stats, sources] = await Promise.all([get("inbox/stats"), get("inbox/sources")]);
  return { stats, sources: sources.items };
}

export default function Inbox({ query }) {
  const asked = { source: query.source, status: query.status, event_id: query.event_id };
  const about = useLoad(fetchSources, [], { everyMs: 5000, on: ["inbox"] });
  const load = usePages((cursor) => get("inbox", { ...asked, order: "newest", limit: PAGE, cursor }), [asked], { everyMs: 5000, on: ["inbox"] });
  const { items = [], next } = load.value ?? {};
  const { stats, sources } = about.value ?? {};
  const names = Object.keys(stats?.sources ?? {});
  const error = about.error ?? load.error;
  return html`<${Screen} title="Inbox" sub=${stats?.store && `${counted(Object.values(stats.statuses).reduce((sum, many) => sum + many, 0), "receipt")}, ${stats.owed ? `${number(stats.owed)} wait for a handler` : "none waits for a handler"}`}>
    ${error && html`<${Failed} error=${error} again=${() => (about.again(), load.again())} what="The inbox" />`}
    ${!about.value && !error && html`<${Skeleton} rows=${6} />`}
    ${stats && stats.store === null && html`<${Empty} title="No inbox in this database" icon="n-inbox"><p>The receiving half of hooklane lives in your application. Where it keeps its inbox in this server's database, what it received shows here: applied, duplicate, stale, failed, each with the proof.</p><${Command} text=${'pip install "hooklane[server]"  # then: Inbox("postgresql://…")'} /></${Empty}>`}
    ${stats?.store && html`<${Sources} sources=${sources} query=${query} />
      <div class="bar"><${Choice} label="Status" value=${query.status ?? ""} choose=${(status) => setQuery({ status: status || null })} options=${[["", "any"], ...STATUSES.map((one) => [one, one.replaceAll("_", " ")])]} />
        ${names.length > 1 && html`<${Choice} label="Source" value=${query.source ?? ""} choose=${(source) => setQuery({ source: source || null })} options=${[["", "all"], ...names.map((one) => [one, one])]} />`}</div>
      ${load.value && !items.length && html`<${Empty} title="Nothing that fits was received" icon="n-inbox"><button class="btn" type="button" onClick=${() => setQuery({ status: null, source: null, event_id: null })}>Show all</button></${Empty}>`}
      ${items.length > 0 && html`<div class="card"><div class="tbl-wrap"><table class="tbl cards"><thead><tr><th>Status</th><th>Event</th><th>Source</th><th>Key</th><th class="r">Copies</th><th>Proof</th><th class="r">Received</th></tr></thead>
        <tbody>${items.map((row) => html`<tr key=${row.id}><td class="c-head"><${Chip} state=${CHIP[row.status] ?? "waiting"} icon=${ICON[row.status]}>${row.status.replaceAll("_", " ")}</${Chip}></td>
          <td class="c-main"><a class="mono ell block" data-row href=${href(`/inbox/${row.id}`)}>${row.event_id}</a><span class="faint ell block">${row.type}</span></td><td data-k="source">${row.source}</td><td class="key c-main">${row.key === null ? html`<span class="faint">no key</span>` : html`<span class="mono ell" dir="auto">${row.key}</span>`}${row.seq !== null && html`<span class="mono faint"> #${row.seq}</span>`}</td>
          <td class="r" data-k="copies">${number(row.copies)}</td><td class="ell c-main">${proof(row)}</td><td class="r c-side"><${Ago} time=${row.received_at} /></td></tr>`)}</tbody></table></div>
        ${next && html`<div class="more-line"><span class="num">${counted(items.length, "receipt")} shown</span><button class="btn small" type="button" onClick=${load.more}>Show ${PAGE} more</button></div>`}</div>`}`}
  </${Screen}>`;
}

/** One line: why it is as it is. */
export function proof(row) {
  if (row.error) return row.error;
  const copies = row.copies > 1 ? `${counted(row.copies - 1, "copy", "copies")} suppressed` : "";
  return copies || { completed: "applied once", pending: "waits for a worker", stale: "a newer one was applied before", held: "waits for an earlier seq", in_progress: "a handler runs now" }[row.status] || "";
}

const DAY_S = 86_400;

/** One line for each source, so that their figures stand below one another. */
function Sources({ sources, query }) {
  if (!sources.length) return html`<${Empty} title="Nothing received yet" icon="n-inbox"><p>Sources appear with the first receipt.</p></${Empty}>`;
  return html`<div class="card tbl-wrap"><table class="tbl cards sources"><thead><tr><th>Source</th><th class="r">Received</th><th class="r">Applied</th><th class="r">Duplicates suppressed</th><th class="r">Stale ignored</th><th class="r">Failed</th><th class="r">Dead</th><th class="r">Rejected</th><th class="r">Handler p95</th><th class="r">Ids kept</th></tr></thead>
    <tbody>${sources.map((one) => html`<${Source} key=${one.source} one=${one} isChosen=${query.source === one.source} isOnly=${sources.length === 1} />`)}</tbody></table></div>`;
}

function Source({ one, isChosen, isOnly }) {
  const rejected = Object.entries(one.rejected ?? {});
  const bad = (name, many) => html`<td class=${`r ${many ? "bad" : ""}`} data-k=${name}>${number(many)}</td>`;
  const notes = [...rejected.map(([reason, many]) => `${number(many)} rejected: ${reason.replaceAll("_", " ")}`), ...(one.breakers ?? []).map((each) => `breaker of ${each.handler}: ${each.state}`)];
  return html`<tr data-source=${one.source} data-chosen=${isChosen || undefined}><td class="c-head"><b class="ell block">${one.source}</b>${notes.length > 0 && html`<span class="faint block">${notes.join(", ")}</span>`}${one.warning && html`<span class="retry row-line"><${Icon} name="warn" />${one.warning}</span>`}
      ${!isOnly && html`<button class="link" type="button" aria-pressed=${String(isChosen)} aria-label=${isChosen ? "Receipts of all sources" : `Only receipts of ${one.source}`} onClick=${() => setQuery({ source: isChosen ? null : one.source })}>${isChosen ? "show all" : "only this"}</button>`}</td>
    <td class="r" data-k="received">${rate(one.received_per_s)}/s</td><td class="r" data-k="applied">${number(one.applied)}</td><td class="r" data-k="duplicates suppressed">${number(one.duplicate)}</td><td class="r" data-k="stale ignored">${number(one.stale)}</td>
    ${bad("failed", one.failed)}${bad("dead", one.dead)}${bad("rejected", rejected.reduce((sum, [, many]) => sum + many, 0))}
    <td class="r" data-k="handler p95">${millisText(one.handler_p95_ms)}</td><td class="r" data-k="ids kept">${one.retention_s === null ? "–" : `${Math.round(one.retention_s / DAY_S)} d`}</td></tr>`;
}
