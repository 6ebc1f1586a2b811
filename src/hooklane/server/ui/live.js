// What the whole page knows: the connection, whether it is paused, the totals, and who wants to hear what.

import { get } from "./api.js";
import { signal, useEffect, useMemo, useRef, useState } from "./kit.js";
import { follow } from "./stream.js";

/** connecting, live or reconnecting. */
export const connection = signal("connecting");
export const paused = signal(false);
/** How many messages came while paused. They are not kept: to go on is to fetch the truth. */
export const news = signal(0);
/** When the page was told something last. */
export const asOf = signal(Date.now());
export const retryAt = signal(0);
/** The server's totals, null until the first answer. */
export const overview = signal(null);
export const endpointName = (id) => overview.value?.endpoints?.find((one) => one.id === id)?.name || id;
/** True where the server asks for a key that this tab does not have. */
export const locked = signal(false);
/** Who looks, as the server knows it: {name, role, scopes, asks_key, …}; null until it has said. */
export const me = signal(null);
/** A customer behind a portal link replays one letter at a time: no plans, no skips, no screens about all tenants. */
export const inPortal = () => me.value?.role === "portal";
/** Once a second, for countdowns and ages. */
export const clock = signal(Date.now());

const listeners = new Map();
/** Hear each message of a kind (`lanes`, `attempts`, `overview`, `reset`, …) with its *since*; returns a function to stop. */
export function hear(kind, listener) {
  const all = listeners.get(kind) ?? new Set();
  listeners.set(kind, all.add(listener));
  return () => all.delete(listener);
}

let untaken = [];
const UNTAKEN_MAX = 100;

/** Messages about lanes that came before the board was there, and after early.js had asked for its lanes. */
export const earlierLanes = () => untaken.splice(0);

/** Kept until the board takes them; where that takes too long, it asks for its lanes anew. */
function keep(value) {
  const { answers } = window.early ?? { answers: {} };
  const asked = Object.keys(answers).filter((path) => path.startsWith("lanes?"));
  if (!asked.length) return;
  untaken.push(value);
  if (untaken.length <= UNTAKEN_MAX) return;
  untaken = [];
  for (const path of asked) delete answers[path];
}

function tell(kind, value, since = performance.now()) {
  if (paused.value) {
    news.value += 1;
    return;
  }
  asOf.value = Date.now();
  if (kind === "overview") overview.value = { ...overview.value, ...value };
  if (kind === "reset" && overviewAskedAt < since) loadOverview();
  if (kind === "lanes") keep(value);
  for (const listener of listeners.get(kind) ?? []) listener(value, since);
}

export function togglePause() {
  paused.value = !paused.value;
  if (paused.value) return;
  news.value = 0;
  tell("reset", {});
}

let overviewAskedAt = 0;

async function loadOverview() {
  overviewAskedAt = performance.now();
  try {
    overview.value = await get("overview");
    locked.value = false;
  } catch (error) {
    locked.value = error.status === 401;
  }
}

export function open() {
  setInterval(() => (clock.value = Date.now()), 1000);
  follow(tell, (word, waitMs, refused) => {
    connection.value = word;
    retryAt.value = Date.now() + waitMs;
    // A stream begins with a reset, which loads it; without a stream it is asked for, and tells whether a key is missing.
    if (word === "reconnecting" && (!overview.value || refused === 401) && !locked.value) loadOverview();
  });
}

/** Whether acts are possible now; otherwise the reason why not. What only *reads* is for viewers as well. */
export function whyNot(reads = false) {
  if (connection.value === "reconnecting") return "The server does not answer: nothing can be changed now";
  if (!reads && me.value && !["admin", "operator", "portal"].includes(me.value.role)) return `You are here as ${me.value.role}, who may only look`;
  return null;
}

/**
 * What *load* resolves to: {value, error, again, soon}. Loaded anew when *what* changes, after a reset of the stream,
 * and every *everyMs*; an answer that was overtaken is dropped, and the old value stays while a new one is fetched, unless
 * the server refuses what is asked now. News (`soon`) do not overtake a load that is under way: it is shown, and then
 * loaded once more.
 */
export function useLoad(load, what, { everyMs = 0, on = [] } = {}) {
  const [state, setState] = useState({ value: undefined, error: null });
  const latest = useRef(0);
  const loader = useRef(load);
  const turn = useRef({ askedAt: 0, isBusy: false, isOwed: false });
  const about = useRef();
  loader.current = load;
  async function again() {
    const mine = ++latest.current;
    turn.current = { askedAt: performance.now(), isBusy: true, isOwed: false };
    try {
      const value = await loader.current();
      if (mine === latest.current) setState({ value, error: null, about: about.current });
    } catch (error) {
      if (error.status === 401) locked.value = true;
      const isRefused = [400, 404, 422].includes(error.status);
      if (mine === latest.current) setState((old) => ({ ...old, value: isRefused && old.about !== about.current ? undefined : old.value, error }));
    }
    if (mine !== latest.current) return;
    turn.current.isBusy = false;
    if (turn.current.isOwed) again();
  }
  function renew() {
    if (turn.current.isBusy) turn.current.isOwed = true;
    else again();
  }
  const soon = useMemo(() => throttled(renew), []);
  useEffect(() => {
    about.current = JSON.stringify(what);
    again();
    const stops = [hear("reset", (_, since) => turn.current.askedAt < since && soon()), ...on.map((kind) => hear(kind, soon))];
    const timer = everyMs ? setInterval(() => !paused.value && !document.hidden && again(), everyMs) : 0;
    return () => {
      latest.current++;
      clearInterval(timer);
      for (const stop of stops) stop();
    };
  }, [JSON.stringify(what)]);
  return { value: state.value, error: state.error, again, soon };
}

/** At most once a second, and once more for what came meanwhile. */
function throttled(act) {
  let timer = 0;
  let last = 0;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      last = Date.now();
      act();
    }, Math.max(0, last + 1000 - Date.now()));
  };
}
