// Events: one search box, newest first; a row opens the story of the event.

import { get } from "./api.js";
import { html, useRef } from "./kit.js";
import { endpointName, overview } from "./live.js";
import { usePages } from "./pages.js";
import { Ago, Chip, Choice, Command, Empty, Failed, Icon, Search, Skeleton } from "./parts.js";
import { go, href, setQuery } from "./route.js";
import { parseSearch } from "./search.js";
import { Screen } from "./shell.js";
import { counted, millisText, number, resultOf, STATES } from "./words.js";

const PAGE = 50;
const RECENT = 200;

/** An event at rest shows its best state; one that waits or failed shows that. */
const LOUD = ["dead", "retrying", "in_flight", "queued", "skipped", "cancelled", "delivered"];
export const loudest = (deliveries) => [...deliveries].sort((a, b) => LOUD.indexOf(a.state) - LOUD.indexOf(b.state))[0];

/** Of deliveries that went well no try is stored; of the latest ones the server still knows what was answered. */
async function fetchEvents(asked, cursor) {
  if (cursor) return get("events", { ...asked, limit: PAGE, cursor });
  const [page, recent] = await Promise.all([get("events", { ...asked, limit: PAGE }), get("attempts", { limit: RECENT }).catch(() => ({ items: [] }))]);
  const latest = new Map(recent.items.toReversed().map((one) => [`${one.event} ${one.endpoint}`, one]));
  return { ...page, latest };
}

/** What the last try came to: the reason of a failure, or what the receiver said and how long it took. */
function resultLine(delivery, attempt) {
  if (delivery?.reason) return delivery.reason;
  return attempt && [[resultOf(attempt), attempt.said].filter(Boolean).join(" "), millisText(attempt.took_ms)].join(", ");
}

export default function Events({ query }) {
  const search = parseSearch(query.q ?? "");
  const asked = { ...search, endpoint: search.endpoint ?? query.endpoint, state: search.state ?? query.state };
  const load = usePages((cursor) => fetchEvents(asked, cursor), [asked]);
  // The totals may come after the list: what was accepted until then is not new.
  const base = useRef({});
  const accepted = overview.value?.ledger?.accepted;
  if (base.current.list !== load.value || base.current.accepted === undefined) base.current = { list: load.value, accepted };
  const fresh = Math.max(0, (accepted ?? 0) - (base.current.accepted ?? 0));
  const { items = [], next } = load.value ?? {};
  const endpoints = overview.value?.endpoints ?? [];
  function change(text) {
    if (/^evt_\w{20,}$/.test(text.trim())) return go(`/events/${text.trim()}`);
    return setQuery({ q: text || null }, { replace: true });
  }
  const isAsked = Object.values(asked).some(Boolean);
  return html`<${Screen} title="Events" sub=${overview.value && `${number(overview.value.ledger.accepted)} accepted`}>
    <div class="bar"><${Search} label="Key, type or id; http:5xx attempts:>3" value=${query.q} change=${change} waitMs=${300} />
      <${Choice} label="State" value=${query.state ?? ""} choose=${(state) => setQuery({ state: state || null })} options=${[["", "any"], ...["queued", "in_flight", "retrying", "delivered", "dead", "skipped", "cancelled"].map((state) => [state, STATES[state]])]} />
      ${endpoints.length > 1 && html`<${Choice} label="Endpoint" value=${query.endpoint ?? ""} choose=${(endpoint) => setQuery({ endpoint: endpoint || null })} options=${[["", "all"], ...endpoints.map((one) => [one.id, one.name || one.id])]} />`}
      <span class="grow"></span>${fresh > 0 && html`<button class="btn" type="button" onClick=${load.again}><${Icon} name="again" />${number(fresh)} new</button>`}</div>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="The events" />`}
    ${!load.value && !load.error && html`<${Skeleton} rows=${10} height=${33} />`}
    ${load.value && !items.length && html`<${Empty} title=${isAsked ? (next ? "No event fits among the newest" : "No event fits") : "No events yet"} icon="n-events">${isAsked ? html`<p class="bar">${next && html`<button class="btn primary" type="button" onClick=${load.more}>Search further back</button>`}<button class="btn" type="button" onClick=${() => go("/events")}>Clear the search</button></p>` : html`<p>Publish one:</p><${Command} text=${`hooklane send order.created '{"id": 1}' --key order:1`} />`}</${Empty}>`}
    ${items.length > 0 && html`<div class="card"><div class="tbl-wrap"><table class="tbl events cards"><thead><tr><th>State</th><th>Type</th><th>Key</th><th>Endpoint</th><th class="r">Tries</th><th>Last result</th><th class="r">Published</th></tr></thead>
      <tbody>${items.map((event) => html`<${EventRow} key=${event.id} event=${event} latest=${load.value.latest} />`)}</tbody></table></div>
      ${next && html`<div class="more-line"><span class="num">${counted(items.length, "event")} shown</span><button class="btn small" type="button" onClick=${load.more}>Show ${PAGE} more</button></div>`}</div>`}
  </${Screen}>`;
}

function EventRow({ event, latest }) {
  const loud = loudest(event.deliveries);
  function attemptOf(one) {
    const attempt = latest.get(`${event.id} ${one.endpoint}`);
    return attempt?.outcome === "delivered" && one.state !== "delivered" ? undefined : attempt; // it was made after the list was read
  }
  const tries = event.deliveries.reduce((sum, one) => sum + Math.max(one.attempts, attemptOf(one)?.attempt ?? 0), 0);
  const result = loud && resultLine(loud, attemptOf(loud));
  return html`<tr><td class="c-head">${loud ? html`<${Chip} state=${loud.state} icon=${loud.state}>${STATES[loud.state]}</${Chip}>` : html`<${Chip}>no endpoint</${Chip}>`}</td>
    <td class="c-main"><a class="ell" data-row href=${href(`/events/${event.id}`)}>${event.type}</a></td>
    <td class="key c-main">${event.key === null ? html`<span class="faint">no key</span>` : html`<span class="mono ell" dir="auto">${event.key}</span>${loud?.seq ? html`<span class="mono faint"> #${loud.seq}</span>` : ""}`}</td>
    <td class="ell">${event.deliveries.length === 1 ? endpointName(loud.endpoint) : event.deliveries.length ? counted(event.deliveries.length, "endpoint") : "–"}</td>
    <td class="r" data-k="tries">${tries || loud?.state !== "delivered" ? number(tries) : html`<span class="faint">–</span>`}</td><td class="ell" data-k=${result ? "last" : undefined}>${result || html`<span class="faint hide-s">–</span>`}</td><td class="r c-side"><${Ago} time=${event.created_at} /></td></tr>`;
}
