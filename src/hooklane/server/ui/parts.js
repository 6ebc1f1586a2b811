// Small things that every screen uses: icons, cells, chips, buttons that act, dialogs, empty and failed states.

import { files } from "./api.js";
import { html, signal, useEffect, useId, useLayoutEffect, useRef, useState } from "./kit.js";
import { asOf, clock, connection, retryAt, whyNot } from "./live.js";
import { ago, atTime, STATES } from "./words.js";

/** The shapes of an event's states, for chips; those of cells are in app.css. Not in the sprite: a copy of a sprite's symbol costs far more than a path. */
const SHAPES = {
  queued: [2, "M8 3.6a4.4 4.4 0 1 1 0 8.8a4.4 4.4 0 1 1 0-8.8z"],
  in_flight: [0, "M4.5 3v10l8-5z"],
  retrying: [2, "M12.9 8a4.9 4.9 0 1 1-1.5-3.5M11.7 1.6v3.1H8.6"],
  delivered: [2.3, "M3.2 8.6l3.2 3.2 6.4-7.4"],
  dead: [2.5, "M4 4l8 8M12 4l-8 8"],
  waiting: [2.2, "M5.2 4v8M10.8 4v8"],
  skipped: [2, "M2 10.6a5.2 5.2 0 0 1 9.6-2.7M12.6 4.4v3.9H8.8"],
  cancelled: [1.7, "M4 8h8"],
};
const shape = ([width, path]) => html`<svg class="icon shape" viewBox="0 0 16 16" aria-hidden="true"><path d=${path} stroke-width=${width} fill=${width ? "none" : "currentColor"} /></svg>`;

/** A state's shape, or an icon of the sprite. The word beside it says the same, so it is hidden from screen readers. */
export const Icon = ({ name }) => (SHAPES[name] ? shape(SHAPES[name]) : html`<svg class="icon" aria-hidden="true"><use href=${`${files}/icons.svg#${name}`} /></svg>`);

/** One event of a lane: shape, word and colour. One element, its shape is drawn by the stylesheet: a board has a thousand of them. */
export const Cell = ({ seq, state, class: extra = "" }) => {
  const says = `#${seq} ${STATES[state]}`;
  return html`<span class=${`cell ${extra}`} data-state=${state} data-seq=${seq} role="img" aria-label=${says} title=${says}>${seq}</span>`;
};

/** A part of a screen whose module is fetched when it is first drawn; *wait* stands there meanwhile. */
export function later(load, name) {
  let Part = null;
  return function Later({ wait = null, ...props }) {
    const [, redraw] = useState(false);
    useEffect(() => {
      if (Part) return;
      load().then((module) => redraw(Boolean((Part = module[name]))), () => said("A part of this page could not be fetched: the server does not answer.", { bad: true }));
    }, []);
    return Part ? html`<${Part} ...${props} />` : wait;
  };
}

/** A stylesheet that only some screens need; resolves when it is there. */
export const dressed = (name) =>
  new Promise((done) => document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: `${files}/${name}`, onload: done, onerror: done })));

export const Chip = ({ state, icon, children }) => html`
  <span class="chip" data-state=${state}>${icon && html`<${Icon} name=${icon} />`}${children}</span>`;

/** A button that asks the server for something: it waits for it, and says why it cannot be pressed. What only *reads* changes nothing. */
export function Act({ run, reads, children, class: kind = "", disabled, title, ...more }) {
  const [busy, setBusy] = useState(false);
  const reason = whyNot(reads);
  async function press() {
    setBusy(true);
    try {
      await run();
    } catch (error) {
      said(error.message, { bad: true });
    } finally {
      setBusy(false);
    }
  }
  return html`<button ...${more} class=${`btn ${kind}`} type="button" disabled=${busy || disabled || Boolean(reason)}
    title=${reason ?? title} aria-busy=${busy} onClick=${press}>${children}</button>`;
}

/** A button that leads to a change, by a dialog: who may not make the change is told so here. */
export function Opener({ open, children, class: kind = "", ...more }) {
  const reason = whyNot();
  return html`<button ...${more} class=${`btn ${kind}`} type="button" disabled=${Boolean(reason)} title=${reason ?? undefined} onClick=${open}>${children}</button>`;
}

/** A key longer than this is written small, or shortened where it stands in a sentence. */
export const LONG = 60;

/** The server's sentence about what waits. The name of a dead letter is for the command line: here its buttons stand beside; of a long key the beginning and the end are enough. */
export function Why({ text, key_: key, state }) {
  const short = key && key.length > LONG ? `${[...key].slice(0, 24).join("")}…${[...key].slice(-8).join("")}` : key;
  const plain = text.replace(/ \(dlv_\w+\)/g, "");
  const around = key ? plain.replaceAll(`of ${key}`, "of \0").replaceAll(`on ${key}`, "on \0").split("\0") : [plain];
  const parts = around.flatMap((one, at) => [at > 0 && html`<b class="mono">${short}</b>`, ...one.split(/(#\d+)/).map((word) => (/^#\d+$/.test(word) ? html`<b class="mono">${word}</b>` : word))]);
  return html`<p class="why" data-state=${state}>${parts}</p>`;
}

/** A time: how long ago, exactly when pointed at. */
export const Ago = ({ time }) =>
  time ? html`<time datetime=${time} title=${time.replace("T", " ")}>${ago(time, clock.value)}</time>` : html`<span>–</span>`;

export const Exactly = ({ time }) => html`<time datetime=${time} title=${time?.replace("T", " ")}>${atTime(time)}</time>`;

/** Puts *text* where it can be pasted from. A page that came over plain http from another machine has no clipboard, but may copy what is marked. */
export async function copyText(text) {
  if (await navigator.clipboard?.writeText(text).then(() => true, () => false)) return;
  const before = document.activeElement;
  const box = Object.assign(document.createElement("textarea"), { className: "vh", readOnly: true, value: text });
  (before?.closest("dialog") ?? document.body).append(box); // beside an open dialog nothing can be marked
  box.select();
  const isCopied = document.execCommand("copy");
  box.remove();
  before?.focus();
  if (!isCopied) throw new Error("The browser does not let this page copy; mark the text and copy it");
}

/** Text with a button that copies it. */
export function Copy({ text, label = "Copy", small = true }) {
  const [done, setDone] = useState(null);
  async function copy() {
    setDone(await copyText(text).then(() => "Copied", () => "Not copied"));
    setTimeout(() => setDone(null), 1500);
  }
  return html`<button class=${`btn quiet ${small ? "small" : ""}`} type="button" onClick=${copy}>
    <${Icon} name=${{ Copied: "delivered", "Not copied": "warn" }[done] ?? "copy"} />${done ?? label}</button>`;
}

export const Command = ({ text }) => html`<div class="command"><code>${text}</code><${Copy} text=${text} /></div>`;

/** Nothing there yet: what this is, and the one thing to do. */
export const Empty = ({ title, children, icon = "n-lanes" }) => html`
  <div class="empty card"><span class="sym"><${Icon} name=${icon} /></span><h2>${title}</h2>${children}</div>`;

/** A load that failed: what failed, what still holds, what to do. */
export function Failed({ error, again, what }) {
  return html`<div class="failed card" role="alert">
    <${Icon} name="warn" />
    <div class="grow"><b>${what} could not be loaded.</b><p>${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}${error.message.endsWith(".") ? "" : "."} Nothing was changed; deliveries do not depend on this page.</p></div>
    <button class="btn" type="button" onClick=${again}>Try again</button>
  </div>`;
}

/** Rows of the final height, after a moment: who waits shortly sees nothing flicker. */
export function Skeleton({ rows = 5, height = 48 }) {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 300);
    return () => clearTimeout(timer);
  }, []);
  if (!shown) return html`<div class="vh" role="status">Loading</div>`;
  return html`<div class="card skeleton" role="status" aria-label="Loading">
    ${Array.from({ length: rows }, () => html`<i class=${height > 40 ? "tall" : ""}></i>`)}</div>`;
}

/** How many dialogs are open. */
const dialogs = signal(0);

/** A modal dialog; Escape and a press beside it close it, unless it is *firm*: what it shows is not shown again. */
export function Dialog({ title, onClose, children, foot, wide, label, firm }) {
  const ref = useRef();
  const id = useId();
  useLayoutEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog.showModal();
    dialogs.value += 1;
    return () => {
      dialogs.value -= 1;
      if (dialog.open) dialog.close();
      before?.focus?.();
    };
  }, []);
  return html`<dialog ref=${ref} class=${`dlg ${wide ? "wide" : ""}`} aria-labelledby=${id} onCancel=${(event) => (event.preventDefault(), onClose())}
    onMouseDown=${(event) => !firm && event.target === ref.current && onClose()}>
    <div class="dlg-in">
      <div class="dlg-head"><h2 id=${id}>${title}</h2>${label}</div>
      <div class="body">${children}</div>
      ${foot && html`<div class="dlg-foot">${foot}</div>`}
    </div>
    ${lines.value.length > 0 && html`<${Lines} role="alert" />`}
  </dialog>`;
}

const lines = signal([]);
const SAID_MS = 10_000;
let count = 0;

/** After each act: a line that stays ten seconds. `link` is {href, text}. */
export function said(text, { bad = false, link } = {}) {
  const id = ++count;
  lines.value = [...lines.value.slice(-2), { id, text, bad, link }];
  setTimeout(() => (lines.value = lines.value.filter((line) => line.id !== id)), SAID_MS);
}

/** Where no dialog is open; otherwise they stand in it, since what is beside it can be neither read nor pressed. */
export const Said = () => (dialogs.value ? null : html`<${Lines} />`);

const Lines = ({ role = "status" }) => html`<div class="said" role=${role}>
  ${lines.value.map(
    (line) => html`<p key=${line.id} data-bad=${line.bad}><${Icon} name=${line.bad ? "warn" : "delivered"} />
      <span class="grow">${line.text}</span>${line.link && html`<a href=${line.link.href}>${line.link.text}</a>`}
      <button class="btn small quiet" type="button" aria-label="Dismiss" onClick=${() => (lines.value = lines.value.filter((one) => one !== line))}><${Icon} name="close" /></button></p>`,
  )}</div>`;

/** The server is away: what is shown is old, and how old. */
export function Away() {
  if (connection.value !== "reconnecting") return null;
  const left = Math.ceil((retryAt.value - clock.value) / 1000);
  return html`<p class="away" role="alert"><${Icon} name="warn" />The server does not answer. Shown: ${atTime(asOf.value)}.
    ${left > 0 ? `Trying again in ${left} s.` : "Trying again."}</p>`;
}

/** A row of buttons of which one is on: options are [value, label, badge]. */
export const Segments = ({ label, value, options, choose }) => html`
  <span class="seg" role="group" aria-label=${label}>
    ${options.map(
      ([one, text, badge]) => html`<button type="button" aria-pressed=${String(one === value)} onClick=${() => choose(one)}>${text}
        ${badge}</button>`,
    )}
  </span>`;

/** A select with its name in it. */
export const Choice = ({ label, value, options, choose }) => html`
  <label class="field choice"><span>${label}</span>
    <select value=${value} onChange=${(event) => choose(event.target.value)}>
      ${options.map(([one, text]) => html`<option value=${one} selected=${one === value}>${text}</option>`)}
    </select><${Icon} name="down" /></label>`;

/** A search box that asks a little after the last key press. */
export function Search({ value, label, change, waitMs = 200 }) {
  const timer = useRef(0);
  const input = useRef();
  const told = useRef(value ?? "");
  useEffect(() => () => clearTimeout(timer.current), []); // what was typed is for this screen, not for the next one
  useEffect(() => {
    // What is being typed stays; what comes from elsewhere, as by Back, is shown.
    if ((value ?? "").trim() === told.current.trim()) return;
    clearTimeout(timer.current);
    input.current.value = told.current = value ?? "";
  }, [value]);
  function typed(event) {
    clearTimeout(timer.current);
    const text = event.target.value;
    timer.current = setTimeout(() => change((told.current = text)), waitMs);
  }
  return html`<label class="field search"><${Icon} name="n-events" /><span class="vh">${label}</span>
    <input ref=${input} type="search" data-search placeholder=${label} spellcheck=${false} autocomplete="off" defaultValue=${value ?? ""} onInput=${typed} />
    <kbd class="kbd" aria-hidden="true">/</kbd></label>`;
}
