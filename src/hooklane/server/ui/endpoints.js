// Endpoints: where deliveries go, and how each of them does.

import { call, get } from "./api.js";
import { AT_ONCE, Hour, useHours, useSeen } from "./hour.js";
import { html, useState } from "./kit.js";
import { clock, useLoad } from "./live.js";
import { Act, Chip, Command, Copy, Dialog, Empty, Failed, Icon, Opener, said, Skeleton } from "./parts.js";
import { go, href, setQuery } from "./route.js";
import { Screen } from "./shell.js";
import { counted, millisText, number, percent, rate, shortUrl, span, until } from "./words.js";

/** The one word that says most about an endpoint, as a chip. */
export function EndpointState({ one }) {
  if (one.state !== "active") return html`<${Chip} state=${one.state === "disabled" ? "disabled" : "waiting"} icon=${one.state === "paused" ? "paused" : "warn"}>${one.state}</${Chip}>`;
  if (one.breaker.state === "open") return html`<${Chip} state="open" icon="retrying">breaker open${one.breaker.until ? `, probe ${until(one.breaker.until, clock.value)}` : ""}</${Chip}>`;
  if (one.breaker.state !== "closed") return html`<${Chip} state="probing" icon="retrying">breaker ${one.breaker.state.replaceAll("_", " ")}</${Chip}>`;
  return html`<${Chip} state="delivered" icon="delivered">active</${Chip}>`;
}

export const secretAge = (one) => (one.secret_age_s === undefined || one.secret_age_s === null ? "–" : span(one.secret_age_s * 1000));

export default function Endpoints({ query }) {
  const load = useLoad(() => get("endpoints"), [], { everyMs: 5000, on: ["endpoints"] });
  const [adding, setAdding] = useState(query.add === "1");
  const items = load.value?.items ?? [];
  return html`<${Screen} title="Endpoints" sub=${load.value && counted(items.length, "endpoint")} actions=${html`<${Opener} class="primary" aria-label="Add an endpoint" open=${() => setAdding(true)}><${Icon} name="plus" /><span class="hide-s">Add an endpoint</span></${Opener}>`}>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="The endpoints" />`}
    ${!load.value && !load.error && html`<${Skeleton} rows=${4} />`}
    ${load.value && !items.length && html`<${Empty} title="No endpoints yet" icon="n-endpoints"><p>An endpoint is an address that events are delivered to.</p><${Command} text="hooklane endpoints add http://127.0.0.1:8000/webhooks" /></${Empty}>`}
    ${items.length > 0 && html`<div class="card tbl-wrap"><table class="tbl cards"><thead><tr><th>Endpoint</th><th>State</th><th>Last hour</th><th class="r">Success, 1 h</th><th class="r">p95</th><th class="r">Backlog</th><th class="r">Blocked</th><th class="r">Rate</th><th class="r">Secret</th></tr></thead>
      ${inGroups(items).map((group, n) => html`<${Rows} key=${n} items=${group} />`)}</table></div>`}
    ${adding && html`<${AddDialog} close=${() => (setAdding(false), setQuery({ add: null }, { replace: true }), load.again())} />`}
  </${Screen}>`;
}

const inGroups = (items) => Array.from({ length: Math.ceil(items.length / AT_ONCE) }, (_, n) => items.slice(n * AT_ONCE, (n + 1) * AT_ONCE));

/** Some endpoints; their last hour is asked for while they are on the screen. */
function Rows({ items }) {
  const [body, isSeen] = useSeen();
  const hours = useHours(isSeen ? items.map((one) => one.id) : []);
  return html`<tbody ref=${body}>${items.map((one) => html`<tr key=${one.id}><td class="c-head"><a class="ell block" data-row href=${href(`/endpoints/${one.id}`)}><b>${one.name || one.id}</b></a><span class="faint ell block">${shortUrl(one.url)}</span></td>
    <td class="c-side"><${EndpointState} one=${one} /></td><td class="c-hour"><${Hour} hour=${hours[one.id]} /></td>
    <td class="r" data-k="success">${percent(one.stats?.success)}${one.stats?.success !== null && one.stats ? " %" : ""}</td><td class="r" data-k="p95">${millisText(one.stats?.p95_ms)}</td><td class="r" data-k="backlog">${number(one.stats?.backlog)}</td>
    <td class="r" data-k="blocked">${one.stats?.blocked ? html`<b class="bad">${number(one.stats.blocked)}</b>` : number(one.stats?.blocked)}</td>
    <td class="r" data-k="rate">${one.stats ? `${rate(one.stats.rate)}/s` : ""}${one.rate_limit ? html`<span class="faint"> of ${one.rate_limit}</span>` : ""}</td><td class="r" data-k="secret">${secretAge(one)}</td></tr>`)}</tbody>`;
}

function AddDialog({ close }) {
  const [made, setMade] = useState(null);
  const [form, setForm] = useState({ url: "", name: "", types: "" });
  const [error, setError] = useState(null);
  const field = (name) => ({ value: form[name], onInput: (event) => setForm({ ...form, [name]: event.target.value }) });
  async function add() {
    setError(null);
    const types = form.types.split(/[\s,]+/).filter(Boolean);
    try {
      setMade(await call("POST", "endpoints", { url: form.url.trim(), ...(form.name ? { name: form.name } : {}), ...(types.length ? { types } : {}) }));
    } catch (problem) {
      setError(problem);
    }
  }
  if (made) return html`<${SecretDialog} title="The endpoint is there" secret=${made.secret ?? made.public_key} close=${() => (close(), said("Endpoint added."), go(`/endpoints/${made.id}`))} />`;
  return html`<${Dialog} title="Add an endpoint" onClose=${close} foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} class="primary" disabled=${!form.url.trim()} run=${add}>Add</${Act}>`}>
    ${error && html`<p class="bad" role="alert">${error.message}</p>`}
    <label class="lab">URL<input class="input mono" type="url" placeholder="https://api.shop.test/hooks" spellcheck=${false} autofocus ...${field("url")} /></label>
    <div class="form2"><label class="lab">Name<input class="input" placeholder="shop" ...${field("name")} /></label>
      <label class="lab">Types<input class="input mono" placeholder="all; or order.*, payment.settled" spellcheck=${false} ...${field("types")} /></label></div></${Dialog}>`;
}

/** A secret is shown once. */
export const SecretDialog = ({ title, secret, close, children }) => html`<${Dialog} title=${title} firm onClose=${close} foot=${html`<span class="grow"></span><button class="btn primary" type="button" onClick=${close}>I have kept it</button>`}>
  <p>The receiver verifies with this. It is shown this once; later it can be revealed, and that goes on record.</p>
  <div class="command"><code>${secret}</code><${Copy} text=${secret} /></div>${children}</${Dialog}>`;
