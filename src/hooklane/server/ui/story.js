// The story of one event: published, waited, tried, delivered or not; with what was sent and what was answered.

import { get, part } from "./api.js";
import { CopyAs } from "./copy_as.js";
import { loudest } from "./events.js";
import { html, useEffect, useState } from "./kit.js";
import { endpointName, hear, inPortal, useLoad } from "./live.js";
import { Act, Chip, Copy, Exactly, Failed, Icon, Opener, Segments, Skeleton, Why } from "./parts.js";
import { replayOne, SkipDialog } from "./resolve.js";
import { href, place, setQuery } from "./route.js";
import { Screen } from "./shell.js";
import { atTime, bytes, millisText, resultOf, span, STATES, tries } from "./words.js";

async function fetchStory(id) {
  const [event, attempts, story, why] = await Promise.all([get(`events/${part(id)}`, {}, { exact: true }), ...["attempts", "story", "why"].map((what) => get(`events/${part(id)}/${what}`))]);
  return { event, attempts: attempts.items, story: story.items, why };
}

export default function Story({ params, query }) {
  const load = useLoad(() => fetchStory(params.id), [params.id], { on: ["dead_letters"] });
  const [skip, setSkip] = useState(null);
  useEffect(() => hear("attempts", ({ items }) => items.some((one) => one.event === params.id) && load.soon()), [params.id]);
  const { event, attempts, story, why } = load.value ?? {};
  const loud = event && loudest(event.deliveries);
  const last = loud?.state === "queued" && story.findLast((line) => line.endpoint === loud.endpoint);
  const waitsFor = last?.kind === "waited" ? last.for_seq : null;
  return html`<${Screen} title=${event?.type ?? "Event"} name="story" sub=${event && html`<span class="mono">${event.key ?? "no key"}${loud?.seq ? ` #${loud.seq}` : ""}</span>`}>
    <p class="crumb"><a class="link" href=${href("/events")}><${Icon} name="left" />Events</a></p>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="This event" />`}
    ${!event && !load.error && html`<${Skeleton} rows=${6} />`}
    ${event && html`<section class="card story-head"><div class="row-line wrap">
        ${waitsFor ? html`<${Chip} state="waiting" icon="waiting">waiting for #${waitsFor}</${Chip}>` : loud ? html`<${Chip} state=${loud.state} icon=${loud.state}>${STATES[loud.state]}</${Chip}>` : html`<${Chip}>no endpoint</${Chip}>`}
        <span class="mono any grow">${event.id}</span><${Copy} text=${event.id} label="Copy id" /><${CopyAs} event=${event.id} letter=${loud?.dead_letter} />
        ${loud?.dead_letter && html`<${Act} class="primary" data-replay run=${async () => (await replayOne(loud.dead_letter), load.again())}>Replay</${Act}>${!inPortal() && html`<${Opener} open=${() => setSkip(loud)}>Skip…</${Opener}>`}`}
        ${loud?.key && html`<a class="btn" href=${href("/lanes", { lane: `${loud.endpoint}/${loud.key}` })}><${Icon} name="n-lanes" />Its lane</a>`}</div>
      <${Why} text=${why.why} key_=${event.key} state=${loud?.state === "dead" ? "blocked" : loud?.state === "retrying" ? "retrying" : "idle"} /></section>
      <div class="cols2 story"><${Timeline} event=${event} attempts=${attempts} story=${story} chosen=${query.try} waits=${waitsFor ? last : null} /><${Exchange} event=${event} attempts=${attempts} query=${query} /></div>`}
    ${skip && html`<${SkipDialog} letter=${skip.dead_letter} lane=${{ key: skip.key ?? skip.dead_letter, head: skip.seq, head_type: event.type, endpoint: skip.endpoint }} close=${() => (setSkip(null), load.again())} />`}
  </${Screen}>`;
}

const ICONS = { published: "plus", waited: "waiting", try: "retrying", delivered: "delivered", dead: "dead", skipped: "skipped", cancelled: "cancelled", replayed: "again", noted: "n-audit", receiver: "n-inbox" };

/** What happened, oldest first; a try opens what was sent and answered. */
function Timeline({ event, attempts, story, chosen, waits }) {
  return html`<section class="card"><div class="title"><h2>What happened</h2><span class="grow"></span><span class="faint ell">${event.replay_of ? html`replay of <a class="link" href=${href(`/events/${event.replay_of}`)}>${event.replay_of}</a>` : ""}</span></div>
    <ol class="timeline">${story.map((line) => {
      const one = line.attempt !== null && line.kind !== "dead" && attempts.find((each) => each.attempt === line.attempt && each.endpoint === line.endpoint && each.started_at === line.at);
      const body = html`<b>${line.kind === "try" ? `try ${line.attempt}` : line === waits ? "waits" : line.kind}</b>${(line.kind === "try" || line.kind === "delivered") && html`<${Chip} state=${line.kind === "delivered" ? "delivered" : line.next_at ? "retrying" : "dead"} icon=${line.kind === "try" && !line.next_at ? "dead" : ICONS[line.kind]}>${resultOf(line)}</${Chip}>`}<span class="mute any">${saysOf(line, event)}</span>${line.for_seq && html`<a class="link" href=${hrefOfSeq(event, line)}>open #${line.for_seq}</a>`}`;
      return html`<li data-kind=${line.kind === "try" && !line.next_at ? "dead" : line.kind}><${Exactly} time=${line.at} />
        ${one ? html`<button class="what" type="button" aria-pressed=${String(chosen === one.id)} onClick=${() => setQuery({ try: one.id, tab: tabForTry() })}>${body}</button>` : html`<span class="what">${body}</span>`}</li>`;
    })}</ol></section>`;
}

/** Where the event that this one waited for is found; a search holds no key with a space in it. */
const hrefOfSeq = (event, { endpoint, for_seq }) => (/\s/.test(event.key) ? href("/lanes", { lane: `${endpoint}/${event.key}` }) : href("/events", { q: `key:${event.key} seq:${for_seq}`, endpoint }));

/** A try is opened for its answer, unless a person looks at something else already. */
const tabForTry = () => place.value.query.tab ?? "response";

/** The rest of a line, after its first word. */
function saysOf(line, event) {
  const at = event.deliveries.length > 1 && line.endpoint ? `at ${line.endpoint_name || line.endpoint}` : "";
  const by = line.actor ? `by ${line.actor}` : "";
  switch (line.kind) {
    case "published":
      return event.deliveries.length ? `to ${event.deliveries.map((one) => endpointName(one.endpoint)).join(", ")}` : "no endpoint matched";
    case "waited":
      return [`${span(line.ms)} behind #${line.for_seq}`, at].filter(Boolean).join(" ");
    case "try":
    case "delivered":
      return [line.ms !== null && millisText(line.ms), at, line.said && `receiver: ${line.said}`, line.kind === "try" && line.next_at && `next ${atTime(line.next_at)}`].filter(Boolean).join(", ");
    case "receiver":
      return [`${line.said} at handler ${line.actor}`, line.attempt > 1 && `after ${tries(line.attempt)}`, line.note].filter(Boolean).join(", ");
    case "dead":
      return [`after ${tries(line.attempt ?? 0)}; its key stops here`, at].filter(Boolean).join(" ");
    default:
      return [at, by, line.note && `“${line.note}”`].filter(Boolean).join(" ");
  }
}

const TABS = [["data", "Data"], ["request", "Request"], ["response", "Response"], ["signature", "Signature"]];

function Exchange({ event, attempts, query }) {
  const one = attempts.find((each) => each.id === query.try) ?? attempts.at(-1);
  // Who looks at a failure wants to know what was answered.
  const tab = query.tab ?? (one && one.outcome !== "delivered" ? "response" : "data");
  return html`<section class="card"><div class="title"><${Segments} label="What is shown" value=${tab} options=${TABS} choose=${(value) => setQuery({ tab: value }, { replace: true })} /><span class="grow"></span>
      ${tab !== "data" && one && html`<span class="faint">of try ${one.attempt}</span>`}</div>
    <div class="pad">${tab === "data" ? html`<${Text} text=${JSON.stringify(event.data, null, 2)} />` : !one ? html`<p class="faint">It was not tried yet.</p>` : html`<${Part} tab=${tab} one=${one} event=${event} attempts=${attempts} />`}</div></section>`;
}

function Part({ tab, one, event, attempts }) {
  const detail = one.detail ?? {};
  const before = attempts[attempts.indexOf(one) - 1];
  if (tab === "request") return html`${kept(detail.request_head) ? html`<${Text} text=${detail.request_head.trim()} />` : html`<${NotKept} />`}<h3>Body, ${bytes(one.sent_bytes)}</h3><${Text} text=${one.sent} />`;
  if (tab === "response") {
    return html`${kept(detail.response_head) ? html`<${Text} text=${detail.response_head.trim()} />` : html`<${NotKept} />`}${detail.response_body && html`<h3>Body</h3><${Text} text=${detail.response_body} />`}
      <${Timings} timings=${detail.timings} />${before?.detail?.response_body !== undefined && before.detail.response_body !== detail.response_body && html`<h3>Try ${before.attempt} was answered</h3><${Text} text=${before.detail.response_body} />`}`;
  }
  const head = (detail.request_head ?? "").split("\r\n").filter((line) => /^(webhook-|idempotency-key|x-)/i.test(line));
  return html`<p class="mute">Signed over <code>${event.id}.timestamp.body</code> with the endpoint's secret; the signature itself is never shown. The receiver checks it with <code>hooklane verify</code>.</p>${head.length > 0 && html`<${Text} text=${head.join("\n")} />`}
    <p><a class="link" href=${href(`/endpoints/${one.endpoint}`)}>Secrets of ${endpointName(one.endpoint)}</a></p>`;
}

const kept = (text) => text !== undefined && text !== null && text !== "";
const NotKept = () => html`<p class="faint">Of tries that went well only the outcome is kept.</p>`;
const Text = ({ text }) => html`<div class="raw"><pre tabindex="0">${text}</pre><${Copy} text=${text} /></div>`;

function Timings({ timings }) {
  if (!timings) return null;
  const parts = [["DNS", timings.dns_ms], ["connect", timings.connect_ms], ["TLS", timings.tls_ms], ["first byte", timings.first_byte_ms], ["all", timings.total_ms]].filter(([, ms]) => ms !== null && ms !== undefined);
  return html`<p class="mute num">${parts.map(([name, ms]) => `${name} ${millisText(ms)}`).join(" · ")}</p>`;
}
