// The frame round every screen: rail, tabs, head with the live pill, palette and keyboard.

import { call, logIn, NoAnswer } from "./api.js";
import { html, useEffect, useRef, useState } from "./kit.js";
import { asOf, connection, inPortal, locked, me, news, overview, paused, togglePause } from "./live.js";
import { Away, Failed, Icon, Said } from "./parts.js";
import { href, named, place, screenOf } from "./route.js";
import { atTime, compact } from "./words.js";

const THEMES = ["system", "light", "dark"];

let isFirst = true;

/** A screen's head and body. *sub* is one line beside the title, *actions* stand before the live pill. */
export function Screen({ title, sub, actions, children, name }) {
  const head = useRef();
  useEffect(() => {
    // What led here may have gone with the screen before: who reads with the keyboard goes on at the top of this one.
    if (!isFirst && document.activeElement === document.body) head.current.focus({ preventScroll: true });
    isFirst = false;
  }, []);
  useEffect(() => {
    document.title = `${title} · hooklane`;
  }, [title]);
  return html`<header class="head">
      <h1 tabindex="-1" ref=${head}>${title}</h1>${sub && html`<span class="sub num ell">${sub}</span>`}<span class="grow"></span>
      ${actions}<${LivePill} />
    </header>
    <main id="main" tabindex="-1" data-screen=${name ?? title.toLowerCase()} data-away=${connection.value === "reconnecting"}>${children}</main>`;
}

function LivePill() {
  const state = paused.value ? "paused" : connection.value;
  const word = paused.value
    ? `Paused${news.value ? ` (${compact(news.value)} new)` : ""}`
    : { live: "Live", connecting: "Connecting", reconnecting: `Reconnecting, as of ${atTime(asOf.value)}` }[connection.value];
  return html`<span class="live" data-state=${state}><span class="word" role="status">${word}</span>
    <button class="btn" type="button" aria-pressed=${String(paused.value)} title=${paused.value ? "Go on (space)" : "Pause (space)"} onClick=${togglePause}>
      <${Icon} name=${paused.value ? "play" : "pause"} /><span>${paused.value ? "Go on" : "Pause"}</span></button></span>`;
}

const isFor = (screen) => screen.portal || !inPortal();

/** The screens that this person may see. */
export const screens = () => named(isFor);

/** The screen of this address, where it is one that this person may see; what lies under another is for whom that is. */
function screenHere() {
  const found = screenOf(place.value.path);
  const above = found?.screen.under ? screenOf(found.screen.under).screen : found?.screen;
  return above && isFor(above) ? found : undefined;
}

function Link({ screen, tab }) {
  const here = screenOf(place.value.path)?.screen;
  const is = here === screen || here?.under === screen.path;
  const dead = screen.path === "/dead" ? (overview.value?.ledger?.dead ?? 0) : 0;
  return html`<a href=${href(screen.path)} aria-current=${is ? "page" : undefined} title=${tab ? undefined : screen.name}>
    <${Icon} name=${screen.icon} /><span class="name">${tab ? (screen.short ?? screen.name) : screen.name}</span>
    ${dead > 0 && html`<span class="badge bad">${compact(dead)}<span class="vh"> need attention</span></span>`}</a>`;
}

function Rail() {
  const shown = screens();
  const groups = [...new Set(shown.map((screen) => screen.group ?? ""))];
  return html`<nav class="rail" aria-label="Screens">
    <a class="brand" href=${href("/")} aria-label="hooklane"><${Logo} /><span class="name">hooklane</span></a>
    ${groups.map((group) => html`${group && html`<p class="gap">${group}</p>`}
      ${shown.filter((screen) => (screen.group ?? "") === group).map((screen) => html`<${Link} key=${screen.path} screen=${screen} />`)}`)}
    <div class="foot">${me.value?.asks_key && html`<${SignOut} />`}<${ThemeButton} /><button class="btn small quiet" type="button" onClick=${() => show("help")}><kbd class="kbd">?</kbd><span class="name">shortcuts</span></button></div>
  </nav>`;
}

const Logo = () => me.value?.look?.logo ? html`<img class="logo" src=${me.value.look.logo} alt="" />` : html`<svg viewBox="0 0 24 24" aria-hidden="true"><rect width="24" height="24" rx="6" class="f-accent" />
  <g class="f-panel"><rect x="4" y="6" width="9" height="2" rx="1" /><rect x="4" y="11" width="5" height="2" rx="1" /><rect x="4" y="16" width="10" height="2" rx="1" />
  <circle cx="17.5" cy="7" r="2.2" /><circle cx="13" cy="12" r="2.2" /><circle cx="18" cy="17" r="2.2" /></g></svg>`;

export const theme = () => document.documentElement.dataset.theme ?? "system";

export function setTheme(next) {
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("hooklane-theme", next);
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
}

function ThemeButton() {
  const [now, setNow] = useState(theme());
  function turn() {
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    setTheme(next);
    setNow(next);
  }
  return html`<button class="btn small quiet" type="button" title=${`Theme: ${now}`} aria-label=${`Theme: ${now}`} onClick=${turn}><${Icon} name="theme" /><span class="name">${now}</span></button>`;
}

/** Only where a key was asked for: the session ends everywhere. */
const SignOut = () => html`<button class="btn small quiet" type="button" title=${`${me.value.name}, ${me.value.role}`} onClick=${() => call("DELETE", "session").finally(() => location.reload())}><${Icon} name="key" /><span class="name">sign out</span></button>`;

function Tabs({ more }) {
  const tabs = screens().filter((screen) => screen.tab);
  const here = screenOf(place.value.path)?.screen;
  const inTabs = tabs.some((screen) => screen === here || here?.under === screen.path);
  return html`<nav class="tabs" aria-label="Screens, short">${tabs.map((screen) => html`<${Link} key=${screen.path} screen=${screen} tab />`)}
    <button type="button" aria-current=${inTabs ? undefined : "page"} onClick=${more}><${Icon} name="more" /><span>More</span></button></nav>`;
}

function SignIn() {
  const [wrong, setWrong] = useState("");
  function enter(event) {
    event.preventDefault();
    logIn(event.target.elements.key.value).then(() => location.reload(), (error) => setWrong(error.message));
  }
  return html`<main class="sign-in"><form class="card" onSubmit=${enter}><${Logo} /><h1>hooklane</h1>
    <label class="lab" for="key">This server asks for its API key<input class="input" id="key" name="key" type="password" autocomplete="off" required autofocus /></label>
    <p role="alert">${wrong}</p>
    <button class="btn primary" type="submit">Open</button></form></main>`;
}

let show = () => {};

/** The whole page; *Overlay* draws the palette and the list of keys ({what, close}). */
export function Shell({ Overlay }) {
  const [overlay, setOverlay] = useState(null);
  const [loaded, setLoaded] = useState({});
  const [missing, setMissing] = useState(null);
  show = setOverlay;
  const found = screenHere();
  const path = found?.screen.path;
  const fetched = () => found.screen.load().then((module) => (setMissing(null), setLoaded((old) => ({ ...old, [path]: module.default }))));
  useEffect(() => {
    if (path && !loaded[path]) fetched().catch(() => setMissing(path));
  }, [path]);
  if (locked.value) return html`<${SignIn} />`;
  const Shown = loaded[path];
  // Another event is another story: nothing of the one before may stand under its address.
  const name = found && [path, ...Object.values(found.params)].join(" ");
  return html`<a class="skip-link" href="#main">Skip to the content</a>
    <div class="shell"><${Rail} /><div class="page"><${Away} />
      ${found ? (Shown ? html`<${Shown} key=${name} params=${found.params} query=${place.value.query} />` : missing === path && html`<${Unfetched} screen=${found.screen} fetched=${fetched} />`) : html`<${Nowhere} />`}
    </div></div>
    <${Tabs} more=${() => setOverlay("palette")} /><${Said} />
    ${overlay && html`<${Overlay} key=${overlay} what=${overlay} close=${() => setOverlay(null)} show=${setOverlay} />`}`;
}

export const openOverlay = (what) => show(what);

/** Some browsers never ask again for a module that did not come: then the page is loaded anew. */
function Unfetched({ screen, fetched }) {
  const again = () => fetched().catch(() => connection.value === "live" && location.reload());
  return html`<${Screen} title=${screen.name ?? "hooklane"}><${Failed} error=${new NoAnswer()} again=${again} what="This screen" /></${Screen}>`;
}

const Nowhere = () => html`<${Screen} title="Nothing here"><div class="empty card"><h2>There is no screen at this address</h2>
  <p><a class="btn" href=${href("/")}>Overview</a></p></div></${Screen}>`;
