// Dead letters: by cause, with what each holds back; replay or skip, one, some or all, from a frozen plan.

import { call, get } from "./api.js";
import { html, useEffect, useState } from "./kit.js";
import { endpointName, inPortal, overview, useLoad } from "./live.js";
import { Act, Ago, Cell, Choice, Dialog, Empty, Failed, Icon, Opener, said, Search, Segments, Skeleton } from "./parts.js";
import { ReplayDialog, replayOne, SkipDialog } from "./resolve.js";
import { href, setQuery } from "./route.js";
import { parseSearch } from "./search.js";
import { Screen } from "./shell.js";
import { atTime, compact, counted, number } from "./words.js";

const PAGE = 20;
const FOUND_MAX = 100;
const FILTERS = ["endpoint", "key", "type", "reason", "http", "after", "before"];

/** What the box asks for; a word without a name is a key. */
function filterOf(text = "") {
  const { q, ...named } = parseSearch(text, FILTERS);
  return q ? { key: q, ...named } : named;
}

/** What died, by cause: the sender's as the server counts them, an inbox's or those searched for as the letters tell. */
async function fetchCauses(side, endpoint, filter) {
  const isSearched = Object.keys(filter).length > 0;
  if (side === "sender" && !isSearched) {
    const { items } = await get("dead-letters/causes");
    return { causes: items.filter((one) => !endpoint || one.endpoint === endpoint), isSearched };
  }
  const letters = [];
  let cursor;
  do {
    const page = await get("dead-letters", { ...(side === "sender" ? { endpoint, ...filter } : { side }), limit: FOUND_MAX, cursor });
    letters.push(...page.items);
    cursor = page.next;
  } while (cursor !== null && letters.length < FOUND_MAX);
  return { causes: byCause(letters), more: cursor !== null, isSearched };
}

/** Letters that died of the same thing at one endpoint or source. */
function byCause(letters) {
  const causes = new Map();
  for (const letter of letters) {
    const name = `${letter.endpoint ?? letter.source}\n${letter.reason}`;
    if (!causes.has(name)) causes.set(name, { endpoint: letter.endpoint, endpoint_name: letter.endpoint_name, source: letter.source, reason: letter.reason, items: [] });
    causes.get(name).items.push(letter);
  }
  const sum = (items) => items.reduce((total, one) => total + (one.waiting ?? 0), 0);
  return [...causes.values()].map((one) => ({ ...one, letters: one.items.length, holds_back: sum(one.items), keys: new Set(one.items.map((each) => each.key)).size, first_at: one.items.map((each) => each.died_at).sort()[0] }));
}

export default function DeadLetters({ query }) {
  const side = query.side === "inbox" ? "inbox" : "sender";
  const filter = side === "sender" ? filterOf(query.q) : {};
  const load = useLoad(() => fetchCauses(side, query.endpoint, filter), [side, query.endpoint, filter], { on: ["overview", "dead_letters"] });
  const stats = useLoad(() => (inPortal() ? null : get("inbox/stats")), [], { on: ["inbox"] });
  const [chosen, setChosen] = useState(new Set());
  const [dialog, setDialog] = useState(null);
  const [turn, setTurn] = useState(0);
  const { causes = [], isSearched } = load.value ?? {};
  const sum = (name) => causes.reduce((total, one) => total + (one[name] ?? 0), 0);
  const again = () => (setTurn(turn + 1), load.again());
  // What was chosen stays chosen until something was done with it, or other letters are shown.
  const close = (isDone) => (setDialog(null), isDone === true && setChosen(new Set()), again());
  useEffect(() => setChosen(new Set()), [side, query.endpoint, query.q]);
  const endpoints = overview.value?.endpoints ?? [];
  const dead = overview.value?.ledger?.dead ?? 0;
  const sub = causes.length > 0 && (side === "sender" ? `${counted(sum("letters"), "letter")} ${sum("letters") === 1 ? "holds" : "hold"} back ${counted(sum("holds_back"), "event")} on ${counted(sum("keys"), "key")}` : counted(sum("letters"), "letter"));
  const all = isSearched ? { ids: causes.flatMap((one) => one.items.map((each) => each.id)) } : { filter: { state: "dead", ...(query.endpoint ? { endpoint: query.endpoint } : {}) } };
  const shown = { 1: "it", 2: "both" }[sum("letters")] ?? `all ${number(sum("letters"))}`;
  return html`<${Screen} title="Dead letters" name="dead" sub=${sub}>
    <div class="bar"><${Segments} label="Side" value=${side} choose=${(one) => setQuery({ side: one === "sender" ? null : one, endpoint: null, q: null })}
        options=${[["sender", "Sender", html`<span class=${`badge ${dead ? "bad" : ""}`}>${compact(dead)}</span>`], ...(inPortal() ? [] : [["inbox", "Inbox", html`<span class=${`badge ${stats.value?.dead ? "bad" : ""}`}>${compact(stats.value?.dead ?? 0)}</span>`]])]} />
      ${side === "sender" && endpoints.length > 1 && html`<${Choice} label="Endpoint" value=${query.endpoint ?? ""} choose=${(endpoint) => setQuery({ endpoint: endpoint || null })} options=${[["", "all"], ...endpoints.map((one) => [one.id, one.name || one.id])]} />`}
      ${side === "sender" && html`<${Search} label="Key, or http:5xx type:order.*" value=${query.q} change=${(q) => setQuery({ q: q || null }, { replace: true })} waitMs=${300} />`}
      <span class="grow"></span>
      ${causes.length > 0 && html`<${Act} reads run=${() => exportLetters(side, query.endpoint, filter)}><${Icon} name="export" />Export NDJSON</${Act}>
        ${side === "sender" && !inPortal() && html`<${Opener} class="primary" open=${() => setDialog({ kind: "replay", wanted: chosen.size ? { ids: [...chosen] } : all })}>${chosen.size ? `Replay ${number(chosen.size)} selected…` : `Replay ${shown}…`}</${Opener}>`}`}</div>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="The dead letters" />`}
    ${!load.value && !load.error && html`<${Skeleton} rows=${5} />`}
    ${load.value && !causes.length && (isSearched ? html`<${Empty} title="No dead letter fits" icon="n-events"><button class="btn" type="button" onClick=${() => setQuery({ q: null })}>Clear the search</button></${Empty}>` : html`<${Nothing} side=${side} store=${stats.value?.store} />`)}
    ${load.value?.more && html`<p class="faint">The oldest ${number(sum("letters"))} that fit are shown.</p>`}
    ${causes.map((cause) => html`<${Cause} key=${`${cause.endpoint ?? cause.source} ${cause.reason}`} cause=${cause} side=${side} turn=${turn} isOnly=${causes.length === 1} chosen=${chosen} choose=${setChosen} open=${setDialog} again=${again} />`)}
    ${dialog?.kind === "replay" && html`<${ReplayDialog} wanted=${dialog.wanted} close=${close} />`}
    ${dialog?.kind === "skip" && html`<${SkipDialog} letter=${dialog.letter.id} lane=${asLane(dialog.letter)} close=${close} />`}
    ${dialog?.kind === "note" && html`<${NoteDialog} letter=${dialog.letter} close=${close} />`}
    ${dialog?.kind === "give-up" && html`<${GiveUpDialog} letter=${dialog.letter} close=${close} />`}
  </${Screen}>`;
}

const asLane = (letter) => ({ key: letter.key ?? letter.id, head: letter.seq, head_type: letter.type, endpoint: letter.endpoint });

const Nothing = ({ side, store }) => html`<${Empty} title=${side === "inbox" && store === null ? "No inbox in this database" : "No dead letters"} icon=${side === "inbox" && store === null ? "n-inbox" : "delivered"}>
  <p>${side === "inbox" && store === null ? "An application that keeps its inbox in this server's database shows here what its handlers gave up." : "Nothing was given up. What fails is tried again; what fails for good comes here and stops its key until you replay or skip it."}</p></${Empty}>`;

function Cause({ cause, side, turn, isOnly, chosen, choose, open, again }) {
  const isSender = side === "sender";
  const [most, setMost] = useState(PAGE);
  const load = useLoad(() => (cause.items ? { items: cause.items } : get("dead-letters", { endpoint: cause.endpoint, reason: cause.reason, limit: most })), [cause, turn, most]);
  const letters = load.value?.items ?? [];
  const at = isSender ? cause.endpoint_name || endpointName(cause.endpoint) : cause.source;
  const said = letters.find((one) => one.said)?.said;
  const toggle = (ids, on) => choose((old) => new Set(on ? [...old, ...ids] : [...old].filter((id) => !ids.includes(id))));
  const wanted = cause.items ? { ids: cause.items.map((one) => one.id) } : { filter: { state: "dead", endpoint: cause.endpoint, reason: cause.reason } };
  return html`<section class="card" aria-label=${`${cause.reason} at ${at}`}>
    <div class="cause">${isSender ? html`<input type="checkbox" aria-label=${`Select all with ${cause.reason}`} checked=${letters.length > 0 && letters.every((one) => chosen.has(one.id))} onChange=${(event) => toggle(letters.map((one) => one.id), event.target.checked)} />` : html`<${Icon} name="dead" />`}
      <p class="any"><b>${cause.reason || "failed"}${said ? ` “${said}”` : ""}</b> at ${at} <span class="faint">${counted(cause.letters, "letter")}, ${counted(cause.keys, "key")}, first ${atTime(cause.first_at)}</span></p>
      ${isSender && cause.letters > 1 && !isOnly && !inPortal() && html`<${Opener} class="small" open=${() => open({ kind: "replay", wanted })}>Replay ${cause.letters === 2 ? "both" : `all ${number(cause.letters)}`}…</${Opener}>`}</div>
    ${load.error && html`<${Failed} error=${load.error} again=${load.again} what="These letters" />`}
    <div class="tbl-wrap"><table class="tbl letters"><thead><tr><th class="c-check"><span class="vh">Select</span></th><th>Key</th><th>Event</th><th class="r">${isSender ? "Holds back" : "Tries"}</th><th class="r">Died</th><th class="hide-s">Note</th><th><span class="vh">Act</span></th></tr></thead>
      <tbody>${letters.map((letter) => html`<${Letter} key=${letter.id} letter=${letter} isSender=${isSender} isChosen=${chosen.has(letter.id)} toggle=${toggle} open=${open} again=${again} />`)}</tbody></table></div>
    ${load.value?.next && html`<div class="more-line"><span class="num">${number(letters.length)} of ${number(cause.letters)} shown</span><button class="btn small" type="button" onClick=${() => setMost(Math.min(100, most + 40))}>Show more</button></div>`}
  </section>`;
}

function Letter({ letter, isSender, isChosen, toggle, open, again }) {
  const name = letter.key ?? letter.event;
  const story = isSender ? href(`/events/${letter.event}`) : href(`/inbox/${letter.id}`);
  return html`<tr><td class="c-check">${isSender && html`<input type="checkbox" aria-label=${`Select ${name}`} checked=${isChosen} onChange=${(event) => toggle([letter.id], event.target.checked)} />`}</td>
    <td class="key"><a class="mono ell" data-row dir="auto" href=${isSender && letter.key !== null ? href("/lanes", { lane: `${letter.endpoint}/${letter.key}` }) : story}>${letter.key ?? "no key"}</a></td>
    <td><span class="row-line">${letter.seq !== null && html`<${Cell} seq=${letter.seq} state="dead" />`}<a class="ell" href=${story}>${letter.type}</a></span></td>
    <td class="r">${isSender ? html`<b class=${letter.waiting ? "bad" : "faint"}>${number(letter.waiting)}</b>` : number(letter.attempts)}</td>
    <td class="r"><${Ago} time=${letter.died_at} /></td>
    <td class="note hide-s">${isSender && html`<button class="link ell" type="button" aria-label=${`${letter.note || "Add a note"} on ${name}`} onClick=${() => open({ kind: "note", letter })}>${letter.note || "Add a note"}${letter.assignee ? ` (${letter.assignee})` : ""}</button>`}</td>
    <td class="r acts"><${Act} class="small" data-replay aria-label=${`Replay ${name}`} run=${async () => (await (isSender ? replayOne(letter.id) : replayRow(letter)), toggle([letter.id], false), again())}>Replay</${Act}>
      ${!inPortal() && html`<${Opener} class="small" aria-label=${`Skip ${name}`} open=${() => open({ kind: isSender ? "skip" : "give-up", letter })}>Skip…</${Opener}>`}</td></tr>`;
}

async function replayRow(letter) {
  const done = await call("POST", `dead-letters/${letter.id}/replay`);
  said(`Owed again to ${counted(done.replayed ?? 1, "handler")}; a worker of the application runs it.`);
}

/** All that are shown, also those that the list has no room for. */
async function exportLetters(side, endpoint, filter) {
  const blob = await get("dead-letters", { side, ...(side === "sender" ? { endpoint, ...filter } : {}) }, { accept: "application/x-ndjson" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `dead-letters-${side}.ndjson`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function NoteDialog({ letter, close }) {
  const [note, setNote] = useState(letter.note);
  const [assignee, setAssignee] = useState(letter.assignee ?? "");
  async function save() {
    await call("PATCH", `dead-letters/${letter.id}`, { note, assignee });
    said("Noted.");
    close();
  }
  return html`<${Dialog} title=${html`Note on <span class="mono">${letter.key ?? letter.event} #${letter.seq}</span>`} onClose=${close}
    foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} class="primary" run=${save}>Save</${Act}>`}>
    <label class="lab">What others should know, goes on record<textarea class="input" rows="4" value=${note} onInput=${(event) => setNote(event.target.value)}></textarea></label>
    <label class="lab">Who looks after it<input class="input" value=${assignee} onInput=${(event) => setAssignee(event.target.value)} /></label></${Dialog}>`;
}

function GiveUpDialog({ letter, close }) {
  const [note, setNote] = useState("");
  async function skip() {
    await call("POST", `dead-letters/${letter.id}/skip`, { note: note.trim() });
    said(`Skipped ${letter.event}.`);
    close(true);
  }
  return html`<${Dialog} title=${html`Give up <span class="mono">${letter.event}</span>?`} onClose=${close} label=${html`<p>Its handlers will never see it. A key that waits behind it moves on.</p>`}
    foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} class="danger" disabled=${!note.trim()} run=${skip}>Skip 1</${Act}>`}>
    <label class="lab">Note, goes on record<textarea class="input" rows="3" value=${note} onInput=${(event) => setNote(event.target.value)}></textarea></label></${Dialog}>`;
}
