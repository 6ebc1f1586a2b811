// The story of one event: published, waited, tried, delivered or not; with what was sent and what was answered.

import { get } from "./api.js";
import { CopyAs } from "./copy_as.js";
import { loudest } from "./events.js";
import { html, useEffect, useState } from "./kit.js";
import { hear, overview, useLoad } from "./live.js";
import { Act, Chip, Copy, Exactly, Failed, Icon, Segments, Skeleton } from "./parts.js";
import { replayOne, SkipDialog } from "./resolve.js";
import { href, setQuery } from "./route.js";
import { Screen } from "./shell.js";
import { atTime, millisText, resultOf, span, STATES } from "./words.js";

const nameOf = (id) => overview.value?.endpoints?.find((one) => one.id === id)?.name || id;
const CHIPS = { delivered: "delivered", retry: "retrying", dead: "dead" };

async function fetchStory(id) {
  const [event, attempts, why] = await Promise.all([get(`events/${id}`), get(`events/${id}/attempts`), get(`events/${id}/why`)]);
  return { event, attempts: attempts.items, why };
}

export default function Story({ params, query }) {
  const load = useLoad(() => fetchStory(params.id), [params.id]);
  const [skip, setSkip] = useState(null);
  useEffect(() => hear("attempts", ({ items }) => items.some((one) => one.event === params.id) && load.again()), [params.id]);
  const { event, attempts, why } = load.value ?? {};
  const loud = event && loudest(event.deliveries);
  return html`<${Screen} title=${event?.type ?? "Event"} name="story" sub=${event && html`<span class="mono">${event.key ?? "no key"}${loud?.seq ? ` #${loud.seq}` : ""}</span>`}>
    <p class="crumb"><a class="link" href=${href("/events")}><${Icon} name="left" />Events</a></p>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="This event" />`}
    ${!event && !load.error && html`<${Skeleton} rows=${6} />`}
    ${event && html`<section class="card story-head"><div class="row-line wrap">
        ${loud ? html`<${Chip} state=${loud.state} icon=${loud.state}>${STATES[loud.state]}</${Chip}>` : html`<${Chip}>no endpoint</${Chip}>`}
        <span class="mono any grow">${event.id}</span><${Copy} text=${event.id} label="Copy id" /><${CopyAs} event=${event.id} letter=${loud?.dead_letter} />
        ${loud?.dead_letter && html`<${Act} class="primary" run=${async () => (await replayOne(loud.dead_letter), load.again())}>Replay</${Act}><button class="btn" type="button" onClick=${() => setSkip(loud)}>Skip…</button>`}
        ${loud?.key && html`<a class="btn" href=${href("/lanes", { lane: `${loud.endpoint}/${loud.key}` })}><${Icon} name="n-lanes" />Its lane</a>`}</div>
      <p class="why" data-state=${loud?.state === "dead" ? "blocked" : loud?.state === "retrying" ? "retrying" : "idle"}>${why.why}</p></section>
      <div class="cols2 story"><${Timeline} event=${event} attempts=${attempts} chosen=${query.try} /><${Exchange} event=${event} attempts=${attempts} query=${query} /></div>`}
    ${skip && html`<${SkipDialog} letter=${skip.dead_letter} lane=${{ key: skip.key ?? skip.dead_letter, head: skip.seq, head_type: event.type, endpoint: skip.endpoint }} close=${() => (setSkip(null), load.again())} />`}
  </${Screen}>`;
}

/** What happened, in order: {at, kind, …}. */
function steps(event, attempts) {
  const all = [{ at: event.created_at, kind: "published" }];
  for (const one of attempts) {
    const before = all.findLast((step) => step.kind === "try" && step.one.endpoint === one.endpoint);
    const waited = Date.parse(one.started_at) - Date.parse(before ? before.one.next_at ?? before.at : event.created_at);
    if (!before && waited > 1000) all.push({ at: one.started_at, kind: "waited", ms: waited, one });
    all.push({ at: one.started_at, kind: "try", one });
  }
  return all.sort((a, b) => a.at.localeCompare(b.at));
}

function Timeline({ event, attempts, chosen }) {
  const many = event.deliveries.length > 1;
  return html`<section class="card"><div class="title"><h2>What happened</h2><span class="grow"></span><span class="faint">${event.replay_of ? `replay of ${event.replay_of}` : ""}</span></div>
    <ol class="timeline">${steps(event, attempts).map((step) => html`<li data-kind=${step.kind} data-outcome=${step.one?.outcome}>
      <${Exactly} time=${step.at} />
      ${step.kind === "published" && html`<span class="what"><b>published</b><span class="mute">${event.deliveries.length ? `to ${event.deliveries.map((one) => nameOf(one.endpoint)).join(", ")}` : "no endpoint matched"}</span></span>`}
      ${step.kind === "waited" && html`<span class="what"><b>waited</b><span class="mute">${span(step.ms)} for its turn${many ? ` at ${nameOf(step.one.endpoint)}` : ""}</span></span>`}
      ${step.kind === "try" && html`<button class="what" type="button" aria-pressed=${String(chosen === step.one.id)} onClick=${() => setQuery({ try: step.one.id })}><b>try ${step.one.attempt}</b>
        <${Chip} state=${CHIPS[step.one.outcome]} icon=${step.one.outcome === "retry" ? "retrying" : step.one.outcome}>${resultOf(step.one)}</${Chip}>
        <span class="mute">${[millisText(step.one.took_ms), many && nameOf(step.one.endpoint), step.one.said && `receiver: ${step.one.said}`, step.one.outcome === "retry" && step.one.next_at && `next ${atTime(step.one.next_at)}`].filter(Boolean).join(", ")}</span></button>`}</li>`)}
      ${event.deliveries.filter((one) => ["skipped", "cancelled", "queued"].includes(one.state)).map((one) => html`<li data-kind=${one.state}><span class="faint">now</span><span class="what"><b>${STATES[one.state]}</b><span class="mute">at ${nameOf(one.endpoint)}</span></span></li>`)}
    </ol></section>`;
}

const TABS = [["data", "Data"], ["request", "Request"], ["response", "Response"], ["signature", "Signature"]];

function Exchange({ event, attempts, query }) {
  const one = attempts.find((each) => each.id === query.try) ?? attempts.at(-1);
  const tab = query.tab ?? "data";
  return html`<section class="card"><div class="title"><${Segments} label="What is shown" value=${tab} options=${TABS} choose=${(value) => setQuery({ tab: value === "data" ? null : value }, { replace: true })} /><span class="grow"></span>
      ${tab !== "data" && one && html`<span class="faint">of try ${one.attempt}</span>`}</div>
    <div class="pad">${tab === "data" ? html`<${Text} text=${JSON.stringify(event.data, null, 2)} />` : !one ? html`<p class="faint">It was not tried yet.</p>` : html`<${Part} tab=${tab} one=${one} event=${event} attempts=${attempts} />`}</div></section>`;
}

function Part({ tab, one, event, attempts }) {
  const detail = one.detail ?? {};
  const before = attempts[attempts.indexOf(one) - 1];
  if (tab === "request") return html`${kept(detail.request_head) ? html`<${Text} text=${detail.request_head} />` : html`<${NotKept} />`}${detail.request_body ? html`<h3>Body</h3><${Text} text=${detail.request_body} />` : html`<p class="faint">The body is the event's data; see Data.</p>`}`;
  if (tab === "response") {
    return html`${kept(detail.response_head) ? html`<${Text} text=${detail.response_head} />` : html`<${NotKept} />`}${detail.response_body && html`<h3>Body</h3><${Text} text=${detail.response_body} />`}
      <${Timings} timings=${detail.timings} />${before?.detail?.response_body !== undefined && before.detail.response_body !== detail.response_body && html`<h3>Try ${before.attempt} was answered</h3><${Text} text=${before.detail.response_body} />`}`;
  }
  const head = (detail.request_head ?? "").split("\r\n").filter((line) => /^(webhook-|idempotency-key|x-)/i.test(line));
  return html`<p class="mute">Signed over <code>${event.id}.timestamp.body</code> with the endpoint's secret; the signature itself is never shown. The receiver checks it with <code>hooklane verify</code>.</p>${head.length > 0 && html`<${Text} text=${head.join("\n")} />`}
    <p><a class="link" href=${href(`/endpoints/${one.endpoint}`)}>Secrets of ${nameOf(one.endpoint)}</a></p>`;
}

const kept = (text) => text !== undefined && text !== null && text !== "";
const NotKept = () => html`<p class="faint">Of tries that went well only the outcome is kept.</p>`;
const Text = ({ text }) => html`<div class="raw"><pre tabindex="0">${text}</pre><${Copy} text=${text} /></div>`;

function Timings({ timings }) {
  if (!timings) return null;
  const parts = [["DNS", timings.dns_ms], ["connect", timings.connect_ms], ["TLS", timings.tls_ms], ["first byte", timings.first_byte_ms], ["all", timings.total_ms]].filter(([, ms]) => ms !== null && ms !== undefined);
  return html`<p class="mute num">${parts.map(([name, ms]) => `${name} ${millisText(ms)}`).join(" · ")}</p>`;
}
