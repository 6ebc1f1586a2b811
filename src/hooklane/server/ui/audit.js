// Audit and keys: who did what, and whether that record is whole; the keys that may call the API.

import { get } from "./api.js";
import { Keys } from "./keys.js";
import { html, useState } from "./kit.js";
import { usePages } from "./pages.js";
import { Act, Chip, Empty, Exactly, Failed, Icon, Search, Skeleton } from "./parts.js";
import { href, setQuery } from "./route.js";
import { Screen } from "./shell.js";
import { number } from "./words.js";

const PAGE = 50;

export default function Audit({ query }) {
  const asked = { actor: query.actor, action: query.action, subject: query.subject };
  const load = usePages((cursor) => get("audit", { ...asked, limit: PAGE, cursor }), [asked], { everyMs: 5000, on: ["overview"] });
  const [chain, setChain] = useState(null);
  const { items = [], next } = load.value ?? {};
  const isAsked = Object.values(asked).some(Boolean);
  return html`<${Screen} title="Audit and keys" name="audit">
    <section class="card chain" data-whole=${chain ? String(chain.whole) : undefined}><${Icon} name="shield" /><div class="grow"><b>${!chain ? "Every act is a line that holds a hash of the one before" : chain.whole ? `The record is whole to line ${number(chain.lines)}` : `Line ${chain.broken.line} does not fit`}</b>
      <p class="mute">${!chain ? "Nothing can be taken out or changed in between without being seen." : chain.whole ? (chain.last ? html`Keep this elsewhere to prove it later: <code class="any">${chain.last}</code>` : "It has no lines yet.") : chain.broken.why}</p></div>
      <${Act} reads run=${async () => setChain(await get("audit/verify"))}>Verify</${Act}></section>
    <div class="bar"><${Search} label="Who or what: actor, action, subject" value=${query.actor ?? query.action ?? query.subject} change=${(text) => setQuery(filterOf(text), { replace: true })} waitMs=${300} /></div>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="The audit log" />`}
    ${!load.value && !load.error && html`<${Skeleton} rows=${6} height=${33} />`}
    ${load.value && !items.length && html`<${Empty} title=${isAsked ? "No line fits" : "Nothing was done yet"} icon="n-audit"><p>${isAsked ? "" : "Replays, skips, notes, pauses, rotated and revealed secrets come here, with who, when and why."}</p></${Empty}>`}
    ${items.length > 0 && html`<div class="card"><div class="tbl-wrap"><table class="tbl cards"><thead><tr><th class="r">Line</th><th>When</th><th>Who</th><th>Did</th><th>What</th><th>Note</th></tr></thead>
      <tbody>${items.map((line) => html`<tr key=${line.n}><td class="r faint" data-k="line">${number(line.n)}</td><td class="nowrap c-side"><${Exactly} time=${line.at} /></td><td class="ell" data-k="by">${line.actor}</td><td class="nowrap c-head"><${Chip} state=${tone(line.action)}>${line.action}</${Chip}></td>
        <td class="mono ell c-main"><${Subject} id=${line.subject} /></td><td class="any c-main">${line.note}</td></tr>`)}</tbody></table></div>
      ${next && html`<div class="more-line"><button class="btn small" type="button" onClick=${load.more}>Show ${PAGE} more</button></div>`}</div>`}
    <${Keys} />
  </${Screen}>`;
}

/** One box for three filters: an id is a subject, a word with a dot is an action, the rest is who. */
function filterOf(text) {
  const none = { actor: null, action: null, subject: null };
  const word = text.trim();
  if (!word) return none;
  if (/^(dlv|evt|ep|pln|job|key)_/.test(word)) return { ...none, subject: word };
  return word.includes(".") ? { ...none, action: word } : { ...none, actor: word };
}

const tone = (action) => (/skip|delete|cancel|reveal|shown/.test(action) ? "dead" : /pause|disable/.test(action) ? "retrying" : /replay|resume|creat/.test(action) ? "delivered" : "waiting");

function Subject({ id }) {
  if (id.startsWith("ep_")) return html`<a href=${href(`/endpoints/${id}`)}>${id}</a>`;
  if (id.startsWith("evt_")) return html`<a href=${href(`/events/${id}`)}>${id}</a>`;
  return html`${id}`;
}
