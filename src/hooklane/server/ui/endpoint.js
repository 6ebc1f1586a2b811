// One endpoint: health, breaker, retry schedule, secrets; pause and resume, test, probe and rotate.

import { call, get, part } from "./api.js";
import { EndpointState, SecretDialog, secretAge } from "./endpoints.js";
import { Charts, fetchSeries } from "./figures.js";
import { Hour, inWords, useHours } from "./hour.js";
import { html, useState } from "./kit.js";
import { clock, inPortal, useLoad } from "./live.js";
import { Act, Ago, Chip, Dialog, Exactly, Failed, Icon, Opener, said, Skeleton } from "./parts.js";
import { href } from "./route.js";
import { Schedule } from "./schedule.js";
import { Screen } from "./shell.js";
import { atTime, counted, millisText, number, percent, rate, tries, until } from "./words.js";

/** So many changes of a breaker the server tells. */
const CHANGES_MAX = 200;
const OVERLAPS = [[3600, "1 hour"], [86_400, "1 day"], [604_800, "7 days"]];

async function fetchEndpoint(id) {
  const [one, all, breaker] = await Promise.all([get(`endpoints/${part(id)}`), get("endpoints"), inPortal() ? { changes: [] } : get(`endpoints/${part(id)}/breaker`)]);
  return { one: { ...all.items.find((each) => each.id === id), ...one }, breaker };
}

export default function Endpoint({ params }) {
  const load = useLoad(() => fetchEndpoint(params.id), [params.id], { everyMs: 3000, on: ["endpoints"] });
  const [dialog, setDialog] = useState(null);
  const series = useLoad(() => fetchSeries("1h", params.id, "attempts,delivery_ms"), [params.id], { everyMs: 20_000 });
  const { one, breaker } = load.value ?? {};
  const close = () => (setDialog(null), load.again());
  const act = async (verb, line) => (await call("POST", `endpoints/${one.id}/${verb}`), said(line), load.again());
  return html`<${Screen} title=${one ? one.name || one.id : "Endpoint"} name="endpoint" sub=${one && html`<span class="mono">${one.url}</span>`}>
    <div class="bar"><p class="crumb grow"><a class="link" href=${href("/endpoints")}><${Icon} name="left" />Endpoints</a></p>
      ${one && html`<${Act} run=${async () => said(probeLine(await call("POST", `endpoints/${one.id}/probe`)))}>Probe now</${Act}>
        <${Opener} open=${() => setDialog("test")}>Test…</${Opener}><${Opener} open=${() => setDialog("rotate")}>Rotate…</${Opener}>
        ${one.state === "active" ? html`<${Opener} key="pause" open=${() => setDialog("pause")}>Pause…</${Opener}>` : html`<${Opener} key="resume" class="primary" open=${() => setDialog("resume")}>Resume…</${Opener}>`}`}</div>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="This endpoint" />`}
    ${!one && !load.error && html`<${Skeleton} rows=${6} />`}
    ${one && html`<${Health} one=${one} /><${BreakerStrip} one=${one} breaker=${breaker} act=${act} />
      ${series.value && one.ledger.accepted > 0 && html`<${Charts} series=${series.value} />`}
      <section class="card"><div class="title"><h2>Retry schedule</h2><span class="grow"></span><span class="faint">${tries(one.attempts_max)}, then ${one.on_dead === "skip" ? "skipped by policy" : "the key stops"}</span></div><div class="pad"><${Schedule} endpoint=${one} /></div></section>
      <div class="cols2"><${Settings} one=${one} /><${Secrets} one=${one} /></div>`}
    ${dialog === "pause" && one && html`<${PauseDialog} one=${one} close=${close} />`}${dialog === "resume" && one && html`<${ResumeDialog} one=${one} close=${close} />`}
    ${dialog === "rotate" && one && html`<${RotateDialog} one=${one} close=${close} />`}${dialog === "test" && one && html`<${TestDialog} one=${one} close=${close} />`}
  </${Screen}>`;
}

const probeLine = (done) => (done.reachable ? `It answers: ${done.status} in ${millisText(done.took_ms)}.` : `No answer: ${(done.failure ?? "unknown").replaceAll("_", " ")}.`);
const backlogOf = (one) => one.stats?.backlog ?? (one.ledger.queued ?? 0) + (one.ledger.retrying ?? 0) + (one.ledger.in_flight ?? 0);

function Health({ one }) {
  const figures = [
    ["Delivered", number(one.ledger.delivered), ""],
    ["Success, 1 h", percent(one.stats?.success), one.stats?.success === null || !one.stats ? "" : "%"],
    ["p95", millisText(one.stats?.p95_ms), ""],
    ["Backlog", number(backlogOf(one)), ""],
    ["Blocked", number(one.stats?.blocked), ""],
    ["Dead", number(one.ledger.dead), ""],
    ["Rate", one.stats ? rate(one.stats.rate) : "–", one.rate_limit ? `of ${one.rate_limit}/s` : "/s"],
    ["Secret", secretAge(one), "old"],
  ];
  return html`<section class="card health" aria-label="Health"><div class="state"><${EndpointState} one=${one} />${one.paused_at && html`<span class="faint">paused <${Ago} time=${one.paused_at} />${one.paused_by ? ` by ${one.paused_by}` : ""}</span>`}</div>
    <dl>${figures.filter(([, value]) => value !== "–").map(([name, value, unit]) => html`<div><dt>${name}</dt><dd class=${(name === "Blocked" || name === "Dead") && value !== "0" ? "bad" : ""}>${value} <small>${unit}</small></dd></div>`)}</dl></section>`;
}

/** The last hour: what became of each try, and below it the breaker (closed, open, probing), each for as long as it was so. */
function BreakerStrip({ one, breaker, act }) {
  const hour = useHours([one.id])[one.id];
  const changes = breaker.changes.map((each) => ({ ...each, time: Date.parse(each.at) }));
  const now = clock.value;
  const from = hour?.from ?? now - 3_600_000;
  const born = Math.max(from, Date.parse(one.created_at)); // before it was created there was none
  const inside = changes.filter((each) => each.time >= from).sort((a, b) => a.time - b.time);
  const before = changes.filter((each) => each.time < from).sort((a, b) => b.time - a.time)[0];
  const parts = [];
  let at = before || changes.length < CHANGES_MAX ? born : inside[0].time; // what came before those is not known
  let state = before?.state ?? "closed";
  for (const each of [...inside, { time: now, state: null }]) {
    parts.push({ from: at, to: each.time, state });
    [at, state] = [each.time, each.state];
  }
  const x = (time) => (Math.max(0, time - from) / (hour ? hour.delivered.length * hour.stepMs : 3_600_000)) * 1000;
  const paint = { closed: "f-good", open: "f-bad", probing: "f-retry" };
  return html`<section class="card"><div class="title"><h2>Last hour</h2>${hour && html`<span class="faint hide-s">${inWords(hour).replace("Last hour: ", "")}</span>`}<span class="grow"></span><span class="faint">breaker ${one.breaker.state === "closed" ? "closed: everything is sent" : one.breaker.state === "open" ? `open: held, never dropped, tries are not used up${one.breaker.until ? `; probe ${until(one.breaker.until, now)}` : ""}` : "probing: one event at a time"}</span>
      ${one.breaker.state !== "closed" && !inPortal() && html`<${Act} class="small" run=${() => act("close", "Breaker closed by hand.")}>Close it</${Act}>`}</div>
    <div class="pad"><${Hour} hour=${hour} large foot=${inPortal()} />${!inPortal() && html`<svg class="strip-svg" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label=${`Breaker in the last hour: ${counted(inside.length, "change")}, ${one.breaker.state} now`}>
      <rect width="1000" height="20" class="f-soft" />${parts.map((part) => html`<rect x=${x(part.from)} y="0" width=${Math.max(1, x(part.to) - x(part.from))} height="20" class=${paint[part.state] ?? "f-retry"} />`)}</svg>`}
      <p class="axis-line faint num"><span>${atTime(new Date(from).toISOString())}</span><span>now</span></p>
      ${inside.length > 0 && html`<ol class="changes">${inside.slice(-4).reverse().map((each) => html`<li><${Exactly} time=${each.at} /><${Chip} state=${each.state}>${each.state}</${Chip}><span class="mute ell">by ${each.by}${each.until ? `, until ${atTime(each.until)}` : ""}</span></li>`)}</ol>`}</div></section>`;
}

const Settings = ({ one }) => html`<section class="card"><div class="title"><h2>Settings</h2></div><div class="pad"><dl class="kv">
  <dt>URL</dt><dd class="mono">${one.url}</dd><dt>Types</dt><dd class="mono">${one.types.join(", ") || "all"}</dd><dt>Order</dt><dd>${{ key: "by key", none: "none", global: "one lane for all" }[one.order] ?? one.order}</dd>
  <dt>When it dies</dt><dd>${one.on_dead === "skip" ? "skip and go on" : "block the key"}</dd><dt>In flight at most</dt><dd>${number(one.in_flight_max)}</dd><dt>Rate limit</dt><dd>${one.rate_limit ? `${one.rate_limit}/s` : "none"}</dd>
  <dt>Timeout</dt><dd>${millisText(one.timeout_ms)}</dd><dt>Headers</dt><dd class="mono">${Object.keys(one.headers).join(", ") || "none"}</dd>
  ${one.tls_expires_at && html`<dt>Certificate ends</dt><dd>${until(one.tls_expires_at, clock.value)}</dd>`}<dt>Created</dt><dd><${Ago} time=${one.created_at} /></dd></dl></div></section>`;

const Secrets = ({ one }) => html`<section class="card"><div class="title"><h2>Secrets</h2><span class="grow"></span><span class="faint">${counted(one.secrets.length, "secret")} ${one.secrets.length === 1 ? "signs" : "sign"} each delivery</span></div>
  <div class="pad"><ol class="changes">${one.secrets.map((secret, n) => html`<li><${Icon} name="key" /><span class="grow">${n === 0 ? "newest" : "older"}${secret.public_key ? html`, <span class="mono">${secret.public_key}</span>` : ""}</span><span class="mute">${secret.expires_at ? `retires ${until(secret.expires_at, clock.value)}` : "in use"}</span></li>`)}</ol></div></section>`;

function PauseDialog({ one, close }) {
  const pause = async () => (await call("POST", `endpoints/${one.id}/pause`), said(`${one.name || one.id} is paused. Nothing is lost.`), close());
  return html`<${Dialog} title=${`Pause ${one.name || one.id}?`} onClose=${close} foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} class="primary" run=${pause}>Pause</${Act}>`}>
    <p>Nothing is sent to it until you resume. Events are taken and kept, in order: nothing is lost or dropped.</p>
    <dl class="kv"><dt>Waits now</dt><dd class="num">${counted(backlogOf(one), "event")}</dd>${one.stats?.rate > 0 && html`<dt>Piles up in an hour, at the present rate</dt><dd class="num">about ${number(Math.round(one.stats.rate * 3600))}</dd>`}</dl></${Dialog}>`;
}

function ResumeDialog({ one, close }) {
  const [limit, setLimit] = useState("");
  const waits = backlogOf(one);
  async function resume() {
    await call("POST", `endpoints/${one.id}/resume`, limit ? { rate: Number(limit) } : undefined);
    said(`${one.name || one.id} takes deliveries again.`);
    close();
  }
  return html`<${Dialog} title=${`Resume ${one.name || one.id}?`} onClose=${close} foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} class="primary" run=${resume}>Resume</${Act}>`}>
    <p>${counted(waits, "event")} ${waits === 1 ? "waits" : "wait"} for it and ${waits === 1 ? "is" : "are"} sent in order.</p>
    <label class="lab">Events a second<input class="input" type="number" min="0.1" step="any" placeholder=${one.rate_limit ? `${one.rate_limit}, as set` : "as fast as it allows"} value=${limit} onInput=${(event) => setLimit(event.target.value)} /><small>Sets the endpoint's rate limit.</small></label></${Dialog}>`;
}

function RotateDialog({ one, close }) {
  const [overlap, setOverlap] = useState(86_400);
  const [made, setMade] = useState(null);
  if (made) return html`<${SecretDialog} title="The new secret" secret=${made.secret ?? made.public_key} close=${() => (said("Secret rotated."), close())}><p>Until ${atTime(new Date(Date.now() + overlap * 1000).toISOString())} every delivery carries a signature of the old secret as well.</p></${SecretDialog}>`;
  return html`<${Dialog} title=${`Rotate the secret of ${one.name || one.id}?`} onClose=${close} foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} class="primary" run=${async () => setMade(await call("POST", `endpoints/${one.id}/rotate`, { overlap_s: overlap }))}>Rotate</${Act}>`}>
    <p>A new secret signs from the next attempt on; the old one goes on signing beside it, so that no delivery fails to verify while the receiver changes.</p>
    <fieldset class="choices"><legend>The old secret signs for another</legend>${OVERLAPS.map(([seconds, text]) => html`<label class="tick"><input type="radio" name="overlap" checked=${overlap === seconds} onChange=${() => setOverlap(seconds)} />${text}</label>`)}</fieldset></${Dialog}>`;
}

function TestDialog({ one, close }) {
  const [type, setType] = useState("hooklane.test");
  const [data, setData] = useState('{"test": true}');
  const [done, setDone] = useState(null);
  const [error, setError] = useState(null);
  async function test() {
    setError(null);
    setDone(null);
    try {
      setDone(await call("POST", `endpoints/${one.id}/test`, { type, data: JSON.parse(data) }));
    } catch (problem) {
      setError(problem);
    }
  }
  return html`<${Dialog} title=${`Send a test to ${one.name || one.id}`} onClose=${close} label=${html`<p>On a key of its own, test:…, so it stands in no real line; it is signed and sent as every delivery.</p>`}
    foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Close</button><${Act} class="primary" run=${test}>Send</${Act}>`}>
    <label class="lab">Type<input class="input mono" value=${type} spellcheck=${false} onInput=${(event) => setType(event.target.value)} /></label>
    <label class="lab">Data<textarea class="input mono" rows="4" spellcheck=${false} value=${data} onInput=${(event) => setData(event.target.value)}></textarea></label>
    ${error && html`<p class="bad" role="alert">${error.message}</p>`}
    ${done && html`<div class="result" role="status"><${Chip} state=${done.ok ? "delivered" : "dead"} icon=${done.ok ? "delivered" : "dead"}>${done.status ?? (done.failure ?? "no answer").replaceAll("_", " ")}</${Chip}><span class="num">${millisText(done.took_ms)}</span>${done.outcome && html`<span>receiver: ${done.outcome}</span>`}${done.body && html`<code class="ell">${done.body}</code>`}</div>`}</${Dialog}>`;
}

