// Plays a trace: theatre, transport and meters in plain DOM, with no import but its model, so that it runs anywhere.
// On a page of your own: <div data-trace="lost-ack.json"></div> and <script type="module" src="player.js"></script>.

import { frameAt, METERS, modelOf, RECEIVERS, stepFrom } from "./trace_model.js";

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
/** Where things stand in the picture, and how many cells there is room for; a narrow screen has one of its own, since a wide one shrunk cannot be read. */
const WIDE = { name: "wide", width: 1000, queue: { x: 20, width: 250 }, wire: { from: 290, to: 716 }, consumer: { x: 734, width: 246 }, cells: 3 };
const NARROW = { name: "narrow", width: 440, queue: { x: 4, width: 132 }, wire: { from: 152, to: 296 }, consumer: { x: 302, width: 134 }, cells: 2 };
const TOP = 30;
const REST_MS = 450;

function node(tag, attributes = {}, ...children) {
  const made = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Its stylesheet, once, from where this module is. */
function dress() {
  const href = new URL("./player.css", import.meta.url).href;
  if (![...document.styleSheets].some((sheet) => sheet.href === href) && !document.querySelector(`link[href="${href}"]`)) {
    document.head.append(node("link", { rel: "stylesheet", href }));
  }
}

/** Show *trace* in *element*; `tell({t, playing})` hears of changes. Answers {play, pause, seek, close}. */
export function mount(element, trace, { speed = 1, at = 0, tell = () => {}, extra = [] } = {}) {
  dress();
  const model = modelOf(trace);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const stage = theatre(model);
  const meters = meterCards(model);
  let t = Math.min(Math.max(0, at), model.end);
  let playing = false;
  let last = 0;
  let frame = 0;
  let now = speed;

  const icon = { play: "M4.5 3v10l8-5z", pause: "M4 3h3v10H4zM9 3h3v10H9z", step: "M3.5 3v10l6-5zM11 3h2v10h-2z", back: "M12.5 3v10l-6-5zM3 3h2v10H3z", again: "M3.1 8a4.9 4.9 0 1 0 1.5-3.5M4.3 1.6v3.1h3.1" };
  const draw = (name) => node("svg:svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, node("svg:path", name === "again" ? { d: icon[name], fill: "none", stroke: "currentColor", "stroke-width": "1.8", "stroke-linecap": "round", "stroke-linejoin": "round" } : { d: icon[name], fill: "currentColor" }));
  const button = (name, text, press, kind = "") => node("button", { type: "button", class: `btn ${kind}`, "data-act": name, onclick: press }, draw(name), node("span", {}, text));
  const playButton = button("play", "Play", () => (playing ? pause() : play()), "primary");
  const scrub = node("input", { type: "range", class: "scrub", min: "0", max: String(Math.ceil(model.end / 10) * 10), step: "10", "aria-label": "Moment of the scenario", oninput: () => scrubbed(Number(scrub.value)) });
  const clock = node("output", { class: "clock" });
  const caption = node("p", { class: "caption", role: "status" });
  const speeds = node("span", { class: "seg", role: "group", "aria-label": "Speed" }, ...SPEEDS.map((one) => node("button", { type: "button", "data-speed": String(one), "aria-pressed": String(one === now), onclick: () => setSpeed(one) }, one === 0.25 ? "¼×" : one === 0.5 ? "½×" : `${one}×`)));
  const transport = node("div", { class: "transport" }, playButton, button("back", "Back", () => (pause(), seek(stepFrom(model, t, false)))), button("step", "Step", () => (pause(), seek(stepFrom(model, t, true)))), button("again", "Restart", () => (pause(), seek(0))), speeds, clock, ...extra);
  const whole = node("div", { class: "player" }, node("section", { class: "card", "aria-label": "Theatre" }, stage.element, caption, node("div", { class: "scrubber" }, scrub), transport), meters.element);
  element.replaceChildren(whole);

  function scrubbed(moment) {
    pause();
    seek(moment);
  }
  function setSpeed(one) {
    now = one;
    for (const each of speeds.children) each.setAttribute("aria-pressed", String(Number(each.dataset.speed) === one));
    tell({ t, playing, speed: now });
  }
  function show() {
    const picture = frameAt(model, t);
    stage.draw(picture, still.matches);
    meters.draw(picture);
    if (caption.textContent !== picture.caption) caption.textContent = picture.caption;
    clock.textContent = `t = ${(t / 1000).toFixed(1)} s of ${(model.end / 1000).toFixed(1)} s`;
    scrub.value = String(Math.round(t));
    scrub.setAttribute("aria-valuetext", `${(t / 1000).toFixed(1)} seconds: ${picture.caption}`);
    whole.dataset.over = String(picture.isOver);
    whole.dataset.playing = String(playing);
  }
  function label() {
    const word = playing ? "pause" : "play";
    playButton.replaceChildren(draw(word), node("span", {}, playing ? "Pause" : "Play"));
    // While it runs, its words would be read one over the other.
    caption.setAttribute("aria-live", playing ? "off" : "polite");
  }
  function tick(moment) {
    if (!playing) return;
    const passed = last ? moment - last : 0;
    if (still.matches) {
      // Nothing travels: from one step to the next, with a rest between.
      if (passed < REST_MS / now && last) return void (frame = requestAnimationFrame(tick));
      t = stepFrom(model, t, true);
    } else t = Math.min(model.end, t + Math.min(passed, 250) * now);
    last = moment;
    show();
    if (t >= model.end) pause();
    else frame = requestAnimationFrame(tick);
  }
  function play() {
    if (t >= model.end) t = 0;
    playing = true;
    last = 0;
    label();
    show();
    tell({ t, playing, speed: now });
    frame = requestAnimationFrame(tick);
  }
  function pause() {
    cancelAnimationFrame(frame);
    playing = false;
    label();
    show();
    tell({ t, playing, speed: now });
  }
  function seek(moment) {
    t = Math.min(Math.max(0, moment), model.end);
    show();
    tell({ t, playing, speed: now });
  }
  label();
  show();
  return { play, pause, seek, close: () => (pause(), element.replaceChildren()) };
}

function theatre(model) {
  const plan = matchMedia("(max-width: 720px)").matches ? NARROW : WIDE;
  const { queue, wire, consumer } = plan;
  const row = model.keys.length <= 2 ? 108 : model.keys.length <= 4 ? 72 : 46;
  const tall = TOP + row * model.keys.length + 8;
  const svg = node("svg:svg", { viewBox: `0 0 ${plan.width} ${tall}`, role: "img", class: `stage ${plan.name}` });
  for (const [x, text] of [[queue.x + queue.width / 2, "sender queue"], [(wire.from + wire.to) / 2, "network"], [consumer.x + consumer.width / 2, "consumer"]]) {
    svg.append(node("svg:text", { x, y: 18, class: "over" }, text));
  }
  svg.append(node("svg:rect", { class: "consumer", x: consumer.x, y: TOP, width: consumer.width, height: tall - TOP - 8, rx: 12 }));
  const lanes = model.keys.map((key, at) => lane(svg, key, TOP + at * row, row, plan));
  const flying = new Map();
  const layer = node("svg:g", {});
  svg.append(layer);
  function draw(picture, still) {
    svg.setAttribute("aria-label", `${picture.caption}. ${picture.lanes.map((one) => `Key ${one.key}: ${one.queue.length} at the sender, ${one.done.length} acknowledged`).join(". ")}`);
    picture.lanes.forEach((one, at) => lanes[at].draw(one));
    const seen = new Set();
    for (const one of picture.flights) {
      seen.add(one.id);
      let group = flying.get(one.id);
      if (!group) {
        group = node("svg:g", { class: "flight" }, node("svg:rect", { x: -29, y: -15, width: 58, height: 30, rx: 7 }), node("svg:path", { class: "cross", d: "M-5-5L5 5M5-5L-5 5" }), node("svg:text", { y: 4 }));
        flying.set(one.id, group);
        layer.append(group);
      }
      group.setAttribute("data-kind", one.kind);
      group.setAttribute("data-copy", String(one.isCopy));
      group.lastChild.textContent = one.kind.endsWith("lost") ? "" : one.name;
      const place = lanes[model.keys.indexOf(one.key)].y + (one.isCopy ? row * 0.22 : 0) + (one.kind === "ack" || one.kind === "refusal" || one.kind === "ack-lost" ? row * -0.12 : 0);
      const along = still ? 0.5 : one.at;
      group.setAttribute("transform", `translate(${wire.from + 34 + along * (wire.to - wire.from - 68)} ${place})`);
    }
    for (const [id, group] of flying) {
      if (seen.has(id)) continue;
      group.remove();
      flying.delete(id);
    }
  }
  return { element: node("div", { class: "theatre" }, svg), draw };
}

function lane(svg, key, top, row, { queue, wire, consumer, cells: room }) {
  const y = top + row / 2;
  const isTall = row > 60;
  const isNarrow = room < 3;
  const box = node("svg:rect", { class: "queue-box", x: queue.x, y: top, width: queue.width, height: row - 8, rx: 10 });
  const track = node("svg:line", { x1: wire.from, x2: wire.to, y1: y - 4, y2: y - 4, class: "track" });
  const gate = node("svg:rect", { class: "gate", x: queue.x + queue.width + 6, y: top + 6, width: 6, height: row - 20, rx: 3 });
  const note = node("svg:text", { class: "note", x: (wire.from + wire.to) / 2, y });
  const cells = node("svg:g", {});
  const label = isTall ? { x: queue.x + 14, y: top + 22, class: "key" } : { x: queue.x + 12, y, class: "key" };
  const group = node("svg:g", { class: "lane-row" }, box, track, gate, node("svg:text", label, `key ${key}`), note, cells);
  svg.append(group);
  const most = isTall ? room : room - 1;
  // Where no place is left before the cells, how many more there are stands below them.
  const moreAt = !isNarrow ? { x: queue.x + (isTall ? 14 : 74), y } : isTall ? { x: queue.x + 14, y: top + row - 16 } : { x: queue.x + 12, y: y + 15 };
  const restAt = !isNarrow ? { x: consumer.x + consumer.width - 28, y } : { x: consumer.x + 8, y: top + row - 12 };
  let before = "";
  function draw(one) {
    group.dataset.gate = one.gate;
    note.textContent = one.note ?? "";
    const now = JSON.stringify([one.queue, one.done]);
    if (now === before) return;
    before = now;
    const waiting = one.queue.slice(0, most).map((cell, at) => cellAt(key, cell, queue.x + queue.width - 34 - at * 62, y - 4));
    const more = one.queue.length > most ? [node("svg:text", { class: "more", ...moreAt }, `+${one.queue.length - most}`)] : [];
    const done = one.done.slice(-room).reverse().map((cell, at) => cellAt(key, cell, consumer.x + (isNarrow ? 35 : 40) + at * 62, y - 4));
    const rest = one.done.length > room ? [node("svg:text", { class: "more", ...restAt }, `+${one.done.length - room}`)] : [];
    cells.replaceChildren(...waiting, ...more, ...done, ...rest);
  }
  return { y: y - 4, draw };
}

function cellAt(key, cell, x, y) {
  return node("svg:g", { class: "cell-box", "data-state": cell.state, transform: `translate(${x} ${y})` }, node("svg:rect", { x: -28, y: -15, width: 56, height: 30, rx: 7 }), node("svg:text", { y: 4 }, `${key}:${cell.seq}`));
}

function meterCards(model) {
  const cards = Object.entries(model.trace.meters).map(([receiver]) => {
    const [title, about] = RECEIVERS[receiver];
    const values = Object.fromEntries(METERS.map(([field]) => [field, node("dd", { "data-meter": field })]));
    const list = node("dl", {}, ...METERS.flatMap(([field, word]) => [node("dt", {}, word), values[field]]));
    const card = node("section", { class: `card meter ${receiver === "ours" ? "ours" : ""}`, "data-receiver": receiver, "aria-label": title }, node("h3", {}, title), node("p", {}, about), list);
    return { receiver, values, card };
  });
  const { ledger } = model.trace;
  const kept = ledger.dead + ledger.waiting;
  const left = node("p", { class: "kept" }, kept ? `The sender keeps ${kept} ${kept === 1 ? "event" : "events"}: ${ledger.dead} dead, ${ledger.waiting} waiting behind. Nothing is lost.` : "");
  function draw(picture) {
    left.hidden = !kept || !picture.isOver;
    for (const { receiver, values } of cards) {
      for (const [field, element] of Object.entries(values)) {
        const value = picture.meters[receiver][field];
        element.textContent = value === null ? "–" : String(value);
        element.dataset.is = value === null || field === "sent" || field === "once" ? "" : value ? "bad" : "good";
      }
    }
  }
  return { element: node("div", { class: "meters-wrap" }, node("div", { class: "meters" }, ...cards.map((one) => one.card)), left), draw };
}

/** Every `<div data-trace="file.json">` of a page becomes a player. */
async function mountAll() {
  for (const element of document.querySelectorAll("[data-trace]")) {
    try {
      const response = await fetch(new URL(element.dataset.trace, document.baseURI));
      if (!response.ok) throw new Error(`${response.status}`);
      mount(element, await response.json(), { speed: Number(element.dataset.speed ?? 1) });
    } catch (error) {
      element.textContent = `The recorded scenario could not be loaded (${error.message}).`;
    }
  }
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
else mountAll();
