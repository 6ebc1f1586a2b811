// Dead letters: by cause, with what each holds back; replay or skip, one, some or all, from a frozen plan.

import { call, get } from "./api.js";
import { html, useState } from "./kit.js";
import { overview, useLoad } from "./live.js";
import { Act, Ago, Cell, Choice, Dialog, Empty, Failed, Icon, said, Segments, Skeleton } from "./parts.js";
import { ReplayDialog, replayOne, SkipDialog } from "./resolve.js";
import { href, setQuery } from "./route.js";
import { Screen } from "./shell.js";
import { atTime, compact, counted, number } from "./words.js";

const PAGE = 100;
const FIRST = 200;

async function fetchLetters(side, endpoint, most) {
  const letters = [];
  for (let cursor; cursor !== null && letters.length < most; ) {
    const page = await get("dead-letters", { side, ...(side === "sender" ? { endpoint } : {}), limit: PAGE, cursor });
    letters.push(...page.items);
    cursor = page.next;
    if (cursor === null) return { letters, more: false };
  }
  return { letters, more: true };
}

/** Letters of one endpoint (or source) that died of the same thing, the cause that holds most back first. */
function byCause(letters) {
  const causes = new Map();
  for (const letter of letters) {
    const at = letter.endpoint ?? letter.source;
    const name = `${at}\n${letter.reason}`;
    if (!causes.has(name)) causes.set(name, { name, at, reason: letter.reason, letters: [] });
    causes.get(name).letters.push(letter);
  }
  const holds = (cause) => cause.letters.reduce((sum, one) => sum + (one.waiting ?? 0), 0);
  return [...causes.values()].sort((a, b) => holds(b) - holds(a) || b.letters.length - a.letters.length);
}

const endpointName = (id) => overview.value?.endpoints?.find((one) => one.id === id)?.name || id;

export default function DeadLetters({ query }) {
  const side = query.side === "inbox" ? "inbox" : "sender";
  const [most, setMost] = useState(FIRST);
  const load = useLoad(() => fetchLetters(side, query.endpoint, most), [side, query.endpoint, most], { on: ["overview", "dead_letters"] });
  const stats = useLoad(() => get("inbox/stats"), [], { on: ["overview"] });
  const [chosen, setChosen] = useState(new Set());
  const [dialog, setDialog] = useState(null);
  const letters = load.value?.letters ?? [];
  const picked = letters.filter((one) => chosen.has(one.id));
  const close = () => (setDialog(null), load.again());
  const endpoints = overview.value?.endpoints ?? [];
  const dead = overview.value?.ledger?.dead ?? 0;
  const keys = new Set(letters.map((one) => `${one.endpoint ?? one.source}\n${one.key}`)).size;
  const held = letters.reduce((sum, one) => sum + (one.waiting ?? 0), 0);
  const sub = letters.length > 0 && `${counted(letters.length, "letter")}${load.value.more ? " shown" : ""} ${letters.length === 1 ? "holds" : "hold"} back ${counted(held, "event")} on ${counted(keys, "key")}`;
  return html`<${Screen} title="Dead letters" name="dead" sub=${sub}>
    <div class="bar"><${Segments} label="Side" value=${side} choose=${(one) => setQuery({ side: one === "sender" ? null : one })}
        options=${[["sender", "Sender", html`<span class=${`badge ${dead ? "bad" : ""}`}>${compact(dead)}</span>`], ["inbox", "Inbox", html`<span class=${`badge ${stats.value?.dead ? "bad" : ""}`}>${compact(stats.value?.dead ?? 0)}</span>`]]} />
      ${side === "sender" && endpoints.length > 1 && html`<${Choice} label="Endpoint" value=${query.endpoint ?? ""} choose=${(endpoint) => setQuery({ endpoint: endpoint || null })} options=${[["", "all"], ...endpoints.map((one) => [one.id, one.name || one.id])]} />`}
      <span class="grow"></span>
      ${letters.length > 0 && html`<${Act} run=${() => exportLetters(side, query.endpoint)}><${Icon} name="export" />Export NDJSON</${Act}>
        ${side === "sender" && html`<button class="btn primary" type="button" onClick=${() => setDialog({ kind: "replay", wanted: picked.length ? { ids: picked.map((one) => one.id) } : { filter: { state: "dead", ...(query.endpoint ? { endpoint: query.endpoint } : {}) } } })}>
          ${picked.length ? `Replay ${number(picked.length)} selected…` : `Replay all ${number(query.endpoint ? letters.length : Math.max(dead, letters.length))}…`}</button>`}`}</div>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="The dead letters" />`}
    ${!load.value && !load.error && html`<${Skeleton} rows=${5} />`}
    ${load.value && !letters.length && html`<${Nothing} side=${side} store=${stats.value?.store} />`}
    ${byCause(letters).map((cause) => html`<${Cause} key=${cause.name} cause=${cause} side=${side} chosen=${chosen} choose=${setChosen} open=${setDialog} again=${load.again} />`)}
    ${load.value?.more && html`<div class="bar"><button class="btn" type="button" onClick=${() => setMost(most + FIRST)}>Show ${FIRST} more</button></div>`}
    ${dialog?.kind === "replay" && html`<${ReplayDialog} wanted=${dialog.wanted} close=${close} />`}
    ${dialog?.kind === "skip" && html`<${SkipDialog} letter=${dialog.letter.id} lane=${asLane(dialog.letter)} close=${close} />`}
    ${dialog?.kind === "note" && html`<${NoteDialog} letter=${dialog.letter} close=${close} />`}
    ${dialog?.kind === "give-up" && html`<${GiveUpDialog} letter=${dialog.letter} close=${close} />`}
  </${Screen}>`;
}

const asLane = (letter) => ({ key: letter.key ?? letter.id, head: letter.seq, head_type: letter.type, endpoint: letter.endpoint });

const Nothing = ({ side, store }) => html`<${Empty} title=${side === "inbox" && store === null ? "No inbox in this database" : "No dead letters"} icon=${side === "inbox" && store === null ? "n-inbox" : "delivered"}>
  <p>${side === "inbox" && store === null ? "An application that keeps its inbox in this server's database shows here what its handlers gave up." : "Nothing was given up. What fails is tried again; what fails for good comes here and stops its key until you replay or skip it."}</p></${Empty}>`;

function Cause({ cause, side, chosen, choose, open, again }) {
  const { letters } = cause;
  const all = letters.every((one) => chosen.has(one.id));
  const keys = new Set(letters.map((one) => one.key)).size;
  const first = letters.reduce((least, one) => (one.died_at < least ? one.died_at : least), letters[0].died_at);
  const toggle = (ids, on) => choose((old) => new Set(on ? [...old, ...ids] : [...old].filter((id) => !ids.includes(id))));
  return html`<section class="card" aria-label=${`${cause.reason} at ${endpointName(cause.at)}`}>
    <div class="cause">${side === "sender" ? html`<input type="checkbox" aria-label=${`Select all with ${cause.reason}`} checked=${all} onChange=${(event) => toggle(letters.map((one) => one.id), event.target.checked)} />` : html`<${Icon} name="dead" />`}
      <p><b class="any">${cause.reason || "failed"}</b> at ${endpointName(cause.at)} <span class="faint">${counted(letters.length, "letter")}, ${counted(keys, "key")}, first ${atTime(first)}</span></p>
      ${side === "sender" && letters.length > 1 && html`<button class="btn small" type="button" onClick=${() => open({ kind: "replay", wanted: { ids: letters.map((one) => one.id) } })}>Replay ${letters.length === 2 ? "both" : number(letters.length)}…</button>`}</div>
    <div class="tbl-wrap"><table class="tbl letters"><thead><tr><th class="c-check"><span class="vh">Select</span></th><th>Key</th><th>Event</th><th class="r">${side === "sender" ? "Holds back" : "Tries"}</th><th class="r">Died</th><th>Note</th><th><span class="vh">Act</span></th></tr></thead>
      <tbody>${letters.map((letter) => html`<tr key=${letter.id}>
        <td class="c-check">${side === "sender" && html`<input type="checkbox" aria-label=${`Select ${letter.key ?? letter.event}`} checked=${chosen.has(letter.id)} onChange=${(event) => toggle([letter.id], event.target.checked)} />`}</td>
        <td class="key"><a class="mono ell" data-row dir="auto" href=${side === "sender" ? (letter.key === null ? href(`/events/${letter.event}`) : href("/lanes", { lane: `${letter.endpoint}/${letter.key}` })) : href(`/inbox/${letter.id}`)}>${letter.key ?? "no key"}</a></td>
        <td><span class="row-line">${letter.seq !== null && html`<${Cell} seq=${letter.seq} state="dead" />`}<a class="ell" href=${side === "sender" ? href(`/events/${letter.event}`) : href(`/inbox/${letter.id}`)}>${letter.type}</a></span></td>
        <td class="r">${side === "sender" ? html`<b class=${letter.waiting ? "bad" : "faint"}>${number(letter.waiting)}</b>` : number(letter.attempts)}</td>
        <td class="r"><${Ago} time=${letter.died_at} /></td>
        <td class="note">${side === "sender" && html`<button class="link ell" type="button" onClick=${() => open({ kind: "note", letter })}>${letter.note || "Add a note"}</button>`}</td>
        <td class="r acts"><${Act} class="small" aria-label=${`Replay ${letter.key ?? letter.event}`} run=${async () => (await (side === "sender" ? replayOne(letter.id) : replayRow(letter)), again())}>Replay</${Act}>
          <button class="btn small" type="button" aria-label=${`Skip ${letter.key ?? letter.event}`} onClick=${() => open({ kind: side === "sender" ? "skip" : "give-up", letter })}>Skip…</button></td></tr>`)}</tbody></table></div>
  </section>`;
}

async function replayRow(letter) {
  const done = await call("POST", `dead-letters/${letter.id}/replay`);
  said(`Owed again to ${counted(done.replayed ?? 1, "handler")}; a worker of the application runs it.`);
}

async function exportLetters(side, endpoint) {
  const blob = await get("dead-letters", { side, ...(side === "sender" ? { endpoint } : {}) }, { accept: "application/x-ndjson" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `dead-letters-${side}.ndjson`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function NoteDialog({ letter, close }) {
  const [note, setNote] = useState(letter.note);
  async function save() {
    await call("PATCH", `dead-letters/${letter.id}`, { note });
    said("Noted.");
    close();
  }
  return html`<${Dialog} title=${html`Note on <span class="mono">${letter.key ?? letter.event} #${letter.seq}</span>`} onClose=${close}
    foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} class="primary" run=${save}>Save</${Act}>`}>
    <label class="lab">What others should know, goes on record<textarea class="input" rows="4" value=${note} onInput=${(event) => setNote(event.target.value)}></textarea></label></${Dialog}>`;
}

function GiveUpDialog({ letter, close }) {
  const [note, setNote] = useState("");
  async function skip() {
    await call("POST", `dead-letters/${letter.id}/skip`, { note: note.trim() });
    said(`Skipped ${letter.event}.`);
    close();
  }
  return html`<${Dialog} title=${html`Give up <span class="mono">${letter.event}</span>?`} onClose=${close} label=${html`<p>Its handlers will never see it. A key that waits behind it moves on.</p>`}
    foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} class="danger" disabled=${!note.trim()} run=${skip}>Skip 1</${Act}>`}>
    <label class="lab">Note, goes on record<textarea class="input" rows="3" value=${note} onInput=${(event) => setNote(event.target.value)}></textarea></label></${Dialog}>`;
}
