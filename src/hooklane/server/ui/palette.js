// The palette (Ctrl K or Cmd K; More on a phone), the list of keys, and the keyboard itself.

import { get } from "./api.js";
import { html, signal, useEffect, useRef, useState } from "./kit.js";
import { togglePause } from "./live.js";
import { Dialog, Icon } from "./parts.js";
import { go } from "./route.js";
import { openOverlay, screens, setTheme } from "./shell.js";
import { inUtc, setUtc } from "./words.js";

const OFF = "hooklane-keys-off";
const UTC = "hooklane-utc";
const off = signal(isKept(OFF));
setUtc(isKept(UTC));
const NEXT_MS = 1200;

const KEYS = [
  ["Ctrl K or Cmd K", "Palette: screens, keys, events"],
  ["/", "Search on this screen"],
  ["j, k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["Esc", "Close what is open"],
  ["r", "Replay what is chosen or open"],
  ["p or Space", "Pause and go on"],
  ["?", "This list"],
];

function isKept(name) {
  try {
    return localStorage.getItem(name) === "1";
  } catch {
    return false;
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(name, value ? "1" : "0");
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
}

function setOff(value) {
  off.value = value;
  keep(OFF, value);
}

/** Everything on the page is said anew; what is shown stands in its address. */
function switchUtc() {
  keep(UTC, !inUtc());
  location.reload();
}

export function Overlay({ what, close, show }) {
  return what === "help" ? html`<${Help} close=${close} />` : html`<${Palette} close=${close} show=${show} />`;
}

function Help({ close }) {
  return html`<${Dialog} title="Keys" onClose=${close} foot=${html`<label class="tick"><input type="checkbox" checked=${!off.value} onChange=${(event) => setOff(!event.target.checked)} />Single keys are on</label><span class="grow"></span><button class="btn" type="button" onClick=${close}>Close</button>`}>
    <dl class="keys">${KEYS.map(([key, does]) => html`<dt><kbd class="kbd">${key}</kbd></dt><dd>${does}</dd>`)}
      ${screens().map((screen) => html`<dt><kbd class="kbd">g</kbd> <kbd class="kbd">${screen.letter}</kbd></dt><dd>${screen.name}</dd>`)}</dl>
  </${Dialog}>`;
}

function Palette({ close, show }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [lanes, setLanes] = useState([]);
  const list = useRef();
  useEffect(() => {
    if (text.trim().length < 2) return setLanes([]);
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      const page = await get("lanes", { q: text.trim(), limit: 6 }, { signal: controller.signal }).catch(() => ({ items: [] }));
      if (!controller.signal.aborted) setLanes(page.items);
    }, 150);
    return () => (clearTimeout(timer), controller.abort());
  }, [text]);
  const wanted = text.trim().toLowerCase();
  const fixed = [
    ...screens().map((screen) => ({ icon: screen.icon, name: screen.name, hint: screen.letter && `g ${screen.letter}`, run: () => go(screen.path) })),
    { icon: "pause", name: "Pause or go on", hint: "space", run: togglePause },
    ...["system", "light", "dark"].map((theme) => ({ icon: "theme", name: `Theme: ${theme}`, run: () => setTheme(theme) })),
    { icon: "n-audit", name: inUtc() ? "Times as on this machine" : "Times in UTC", run: switchUtc },
    { icon: "info", name: "Keys", hint: "?", run: () => setTimeout(() => show("help")) },
  ].filter((one) => one.name.toLowerCase().includes(wanted));
  const found = [
    ...fixed,
    ...lanes.map((lane) => ({ icon: "n-lanes", name: lane.key, hint: `lane at ${lane.endpoint_name || lane.endpoint}`, mono: true, run: () => go("/lanes", { lane: `${lane.endpoint}/${lane.key}`, q: lane.key }) })),
    ...(wanted.length > 1 ? [{ icon: "n-events", name: `Search events for “${text.trim()}”`, run: () => go("/events", { q: text.trim() }) }] : []),
  ];
  const chosen = Math.min(at, found.length - 1);
  function pick(one) {
    close();
    one?.run();
  }
  function key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((chosen + step + found.length) % found.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      pick(found[chosen]);
    }
  }
  useEffect(() => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [chosen]);
  return html`<${Dialog} title="Go to" onClose=${close}>
    <input class="input" type="text" role="combobox" aria-expanded="true" aria-controls="palette" aria-activedescendant=${`palette-${chosen}`} aria-label="Screen, key or event" placeholder="Screen, key or event" autocomplete="off" spellcheck=${false}
      autofocus onInput=${(event) => (setText(event.target.value), setAt(0))} onKeyDown=${key} />
    <ul class="palette" id="palette" role="listbox" aria-label="Results" ref=${list}>${found.map(
      (one, n) => html`<li key=${one.name + (one.hint ?? "")} id=${`palette-${n}`} role="option" aria-selected=${String(n === chosen)} onClick=${() => pick(one)} onMouseMove=${() => n !== chosen && setAt(n)}>
        <${Icon} name=${one.icon} /><span class=${`grow ell ${one.mono ? "mono" : ""}`}>${one.name}</span><span class="faint">${one.hint}</span></li>`,
    )}</ul>
  </${Dialog}>`;
}

let before = "";
let beforeAt = 0;

/** One listener for all keys; none of them works while a person types. */
export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      return openOverlay("palette");
    }
    if (off.value || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    if (event.target.closest("input, textarea, select, dialog, [contenteditable]")) return undefined;
    const isOnControl = event.target.closest("button, a, summary");
    if (event.key === " " && !isOnControl) return prevented(event, togglePause);
    if (event.key === "/") return prevented(event, () => document.querySelector("[data-search]")?.focus());
    if (event.key === "?") return prevented(event, () => openOverlay("help"));
    if (event.key === "j" || event.key === "k") return prevented(event, () => move(event.key === "j" ? 1 : -1));
    if (event.key === "Escape") document.querySelector("[data-close]")?.click();
    const now = Date.now();
    if (before === "g" && now - beforeAt < NEXT_MS) {
      const screen = screens().find((one) => one.letter === event.key);
      if (screen) go(screen.path);
    } else if (event.key === "p") togglePause();
    else if (event.key === "r") replay();
    before = event.key;
    beforeAt = now;
    return undefined;
  });
}

function prevented(event, act) {
  event.preventDefault();
  act();
}

/** Presses the button that replays (data-replay): that of the row that has the focus, or of the lane or event that is open. */
function replay() {
  const row = document.activeElement?.closest("tr, li");
  (row?.querySelector("[data-replay]") ?? document.querySelector("aside [data-replay], .story-head [data-replay]"))?.click();
}

/** The row links of a screen carry data-row; j and k move the focus among them. */
function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.checkVisibility());
  const at = rows.indexOf(document.activeElement.closest("[data-row]"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

