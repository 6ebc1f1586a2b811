// Playground: choose a scenario, guess, press play. The engine runs on the server; the address is the whole state.

import { call, get } from "./api.js";
import { html, useEffect, useMemo, useRef, useState } from "./kit.js";
import { Command, Copy, Dialog, dressed, Empty, Failed, Icon, Skeleton } from "./parts.js";
import { mount } from "./player.js";
import { setQuery } from "./route.js";
import { Screen } from "./shell.js";
import { counted } from "./words.js";

await dressed("play.css");

const FAULTS = [
  ["drop_request", "Request lost", 100, 5],
  ["drop_ack", "Answer lost", 100, 5],
  ["duplicate", "Sent twice", 100, 5],
  ["crash", "Consumer crashes", 100, 5],
  ["worker_crash", "Sender’s worker crashes", 100, 5],
  ["delay_ms", "Delay", 1000, 50],
  ["reorder_ms", "Copies come late, up to", 5000, 250],
];
/** Where a crash happens, beside how often: the first is the one that is not said. */
const POINTS = {
  crash: ["crash_at", { anywhere: "anywhere", before_work: "before its work", before_commit: "after the effect, before the commit", before_answer: "after the commit, before the answer" }],
  worker_crash: ["worker_crash_at", { anywhere: "anywhere", before_send: "before it sends", before_answer: "after it sent, before the answer", before_commit: "after the 2xx, before the commit", after_commit: "after the commit" }],
};
const isShare = (name) => !name.endsWith("_ms");
const shown = (name, value) => (isShare(name) ? `${value} %` : value >= 1000 ? `${value / 1000} s` : `${value} ms`);

/** A whole number of the address, within its bounds; anything else is left out. */
function whole(text, least, most) {
  const value = Number(text);
  return text !== undefined && text !== "" && Number.isInteger(value) && value >= least && value <= most ? value : undefined;
}

/** What is asked of the server by this address; a mangled link still plays. */
function askedOf(query, listed) {
  const scenario = listed.scenarios.find((one) => one.name === query.s) ?? listed.scenarios[0];
  const events = whole(query.events, 1, listed.events_max);
  const asked = { scenario: scenario.name, seed: whole(query.seed, 0, Number.MAX_SAFE_INTEGER) ?? 1 };
  if (events) Object.assign(asked, { events, keys: whole(query.keys, 1, listed.keys_max) ?? 4 });
  const rate = whole(query.rate, 1, listed.rate_max);
  if (rate) asked.rate = rate;
  const given = FAULTS.map(([name, , most]) => [name, whole(query[name], 0, most)]).filter(([, value]) => value !== undefined);
  const faults = Object.fromEntries(given.map(([name, value]) => [name, isShare(name) ? value / 100 : value]));
  for (const [name, words] of Object.values(POINTS)) if (Object.hasOwn(words, query[name] ?? "")) faults[name] = query[name];
  if (Object.keys(faults).length) asked.faults = { ...(events ? scenario.crowd : {}), ...faults };
  return asked;
}

export default function Playground({ query }) {
  const [listed, setListed] = useState(null);
  const [error, setError] = useState(null);
  const load = () => get("sim").then((value) => (setListed(value), setError(null)), setError);
  useEffect(() => void load(), []);
  return html`<${Screen} title="Playground" name="play" sub="Runs hooklane’s own engine on this server, seeded: the same seed plays the same story">
    ${error ? (error.status === 404 ? html`<${SwitchedOff} />` : html`<${Failed} error=${error} again=${load} what="The scenarios" />`) : listed ? html`<${Room} listed=${listed} query=${query} />` : html`<${Skeleton} rows=${8} />`}
  </${Screen}>`;
}

const SwitchedOff = () => html`<${Empty} title="The playground is switched off on this server" icon="n-play">
  <p>It takes time of the processor that delivers, so a server has it only where it is asked for. On your own machine:</p>
  <${Command} text="hooklane dev" /><p>On this server:</p><${Command} text="hooklane serve --playground" /><p>In a terminal, without any server:</p><${Command} text="hooklane simulate lost-ack --receiver naive,ours" /></${Empty}>`;

function Room({ listed, query }) {
  const asked = askedOf(query, listed);
  const scenario = listed.scenarios.find((one) => one.name === asked.scenario);
  const [isOver, setOver] = useState(false);
  const run = useRun(asked);
  const place = useRef();
  useEffect(() => {
    if (!run.trace) return undefined;
    setOver(false);
    const player = mount(place.current, run.trace, { speed: asked.events ? 4 : 1, tell: ({ t }) => t >= run.trace.end_ms && setOver(true) });
    return player.close;
  }, [run.trace]);
  const presets = useRef();
  useEffect(() => {
    // On a phone they stand in a line that scrolls sideways.
    const [list, chosen] = [presets.current, presets.current.querySelector("[aria-pressed=true]")];
    list.scrollLeft = chosen.offsetLeft - list.offsetLeft - 16;
  }, []);
  return html`<div class="play">
    <aside aria-label="Scenario and faults">
      <section class="card" aria-label="Scenario"><div class="title"><h2>Scenario</h2></div>
      <div class="preset" ref=${presets}>${listed.scenarios.map((one) => html`<button type="button" key=${one.name} data-scenario=${one.name} aria-pressed=${String(one === scenario)} onClick=${() => setQuery({ s: one.name, ...NO_FAULTS })}>
        <${Icon} name=${one === scenario ? "in_flight" : "queued"} /><b>${one.title}</b><span>${one.about}</span></button>`)}</div></section>
      <${Sliders} asked=${asked} query=${query} scenario=${scenario} listed=${listed} />
    </aside>
    <div>
      <${Quiz} key=${scenario.name} questions=${scenario.questions} isOver=${isOver} />
      ${run.error && html`<${Failed} error=${run.error} again=${run.again} what="The scenario" />`}
      <div ref=${place} data-player aria-busy=${String(run.busy)} data-hash=${run.trace?.trace_hash}></div>
      ${!run.trace && !run.error && html`<${Skeleton} rows=${6} />`}
      <${Tools} asked=${asked} trace=${run.trace} />
    </div>
  </div>`;
}

const NO_FAULTS = Object.fromEntries([...FAULTS.map(([name]) => name), ...Object.values(POINTS).map(([name]) => name)].map((name) => [name, null]));

/** The trace of what is asked: one call for each change, and what was overtaken is dropped. */
function useRun(asked) {
  const [state, setState] = useState({ trace: null, error: null, busy: true });
  const [count, setCount] = useState(0);
  const body = JSON.stringify(asked);
  useEffect(() => {
    const controller = new AbortController();
    setState((old) => ({ ...old, busy: true }));
    call("POST", "sim", JSON.parse(body), { signal: controller.signal }).then(
      (trace) => setState({ trace, error: null, busy: false }),
      (error) => controller.signal.aborted || setState((old) => ({ ...old, error, busy: false })),
    );
    return () => controller.abort();
  }, [body, count]);
  return { ...state, again: () => setCount(count + 1) };
}

function Slider({ label, name, value, most, step, least = 0, text, set }) {
  const [now, setNow] = useState(value);
  useEffect(() => setNow(value), [value]);
  return html`<label class="slide"><span>${label}</span><span class="num mute" aria-hidden="true">${text(now)}</span>
    <input type="range" name=${name} min=${least} max=${most} step=${step} value=${now} aria-valuetext=${text(now)} onInput=${(event) => setNow(Number(event.target.value))} onChange=${(event) => set(Number(event.target.value))} /></label>`;
}

function Sliders({ asked, query, scenario, listed }) {
  const of = (name) => {
    const value = asked.faults?.[name] ?? (asked.events ? scenario.crowd[name] : 0) ?? 0;
    return isShare(name) ? Math.round(value * 100) : value;
  };
  const isChanged = [...Object.keys(NO_FAULTS), "events", "rate"].some((name) => query[name] !== undefined);
  return html`<section class="card sliders" aria-label="Faults"><h2>Faults${isChanged && html`<button class="btn small quiet" type="button" onClick=${() => setQuery({ ...NO_FAULTS, events: null, keys: null, rate: null })}>Reset</button>`}</h2>
    <${Slider} label="Events" name="events" value=${asked.events ?? 0} most=${listed.events_max} step=${10} text=${(value) => (value ? String(value) : "its own story")} set=${(value) => setQuery({ events: value || null, keys: value ? (asked.keys ?? 4) : null })} />
    ${asked.events && html`<${Slider} label="Keys" name="keys" least=${1} value=${asked.keys} most=${listed.keys_max} step=${1} text=${String} set=${(value) => setQuery({ keys: value })} />`}
    <${Slider} label="Rate" name="rate" value=${asked.rate ?? 0} most=${listed.rate_max} step=${1} text=${(value) => (value ? `${value} a second` : "its own pace")} set=${(value) => setQuery({ rate: value || null })} />
    ${FAULTS.map(([name, label, most, step]) => html`<${Slider} key=${name} label=${label} name=${name} value=${of(name)} most=${most} step=${step} text=${(value) => shown(name, value)} set=${(value) => setQuery({ [name]: value })} />
      ${POINTS[name] && of(name) > 0 && html`<${Point} key=${`${name}-at`} label=${label} point=${POINTS[name]} value=${asked.faults?.[POINTS[name][0]]} />`}`)}
  </section>`;
}

/** Where a crash happens; asked for only where there are crashes. */
const Point = ({ label, point: [name, words], value = "anywhere" }) => html`
  <label class="point"><span class="vh">${label}, where</span><select class="input" name=${name} value=${value} onChange=${(event) => setQuery({ [name]: event.target.value === "anywhere" ? null : event.target.value })}>
    ${Object.entries(words).map(([one, text]) => html`<option value=${one} selected=${one === value}>${text}</option>`)}</select></label>`;

/** The right answer stands first in the list; here each question has an order of its own, always the same. */
function inOrder(answers, text) {
  const turn = [...text].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 9973, 7) % answers.length;
  return [...answers.slice(turn), ...answers.slice(0, turn)];
}

function Quiz({ questions, isOver }) {
  const [at, setAt] = useState(0);
  const [chosen, setChosen] = useState({});
  const question = questions[at];
  const answers = useMemo(() => inOrder(question.answers, question.text), [question]);
  const mine = chosen[at];
  const isTold = isOver && mine !== undefined;
  const isRight = mine === question.answers[0];
  return html`<section class="quiz" aria-label="Check yourself"><h2>Check yourself: ${question.text}</h2>
    <div class="opts" role="group" aria-label="Answers">${answers.map((answer) => html`<button type="button" key=${answer} aria-pressed=${String(answer === mine)} data-was=${isTold ? (answer === question.answers[0] ? "right" : answer === mine ? "wrong" : undefined) : undefined}
      onClick=${() => setChosen({ ...chosen, [at]: answer })}>${answer}</button>`)}</div>
    <div class="says"><p class="grow" role="status">${isTold ? html`<b class=${isRight ? "good" : "bad"}>${isRight ? "Right." : `No: ${question.answers[0]}.`}</b> ${question.why}` : mine === undefined ? "Choose, then press play and watch." : "Press play, and watch it to the end."}</p>
    ${questions.length > 1 && html`<button class="btn small" type="button" onClick=${() => setAt((at + 1) % questions.length)}>Question ${at + 1} of ${questions.length}: next</button>`}</div></section>`;
}

function Tools({ asked, trace }) {
  const [open, setOpen] = useState(null);
  return html`<div class="bar">
    <label class="field">Seed<input type="number" name="seed" min="0" step="1" value=${asked.seed} onChange=${(event) => setQuery({ seed: whole(event.target.value, 0, Number.MAX_SAFE_INTEGER) ?? 1 })} /></label>
    <button class="btn" type="button" onClick=${() => setQuery({ seed: asked.seed + 1 })}><${Icon} name="again" />Another seed</button>
    ${trace && html`<span class="faint mono" title="The same request makes the same trace">trace ${trace.trace_hash.slice(0, 8)}</span>`}<span class="grow"></span>
    <${Copy} text=${location.href} label="Copy link" small=${false} />
    <button class="btn" type="button" onClick=${() => setOpen("export")}><${Icon} name="export" />Export as pytest</button>
    <button class="btn" type="button" onClick=${() => setOpen("aim")}><${Icon} name="bolt" />Aim at my URL</button>
    ${open === "export" && html`<${Export} asked=${asked} close=${() => setOpen(null)} />`}
    ${open === "aim" && html`<${Aim} asked=${asked} close=${() => setOpen(null)} />`}</div>`;
}

function Export({ asked, close }) {
  const [made, setMade] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => void call("POST", "sim/export", asked).then(setMade, setError), []);
  const foot = html`${made && html`<a class="btn" download=${made.name} href=${`data:text/x-python;charset=utf-8,${encodeURIComponent(made.text)}`}>Download ${made.name}</a><${Copy} text=${made.text} label="Copy" small=${false} />`}<span class="grow"></span><button class="btn" type="button" onClick=${close}>Close</button>`;
  return html`<${Dialog} title="A test for your handler" wide onClose=${close} foot=${foot}>
    <p>It delivers these copies, in this order, to the receiver that your <code>conftest.py</code> names, and asserts: once, in order, nothing lost, nothing forged.</p>
    ${error ? html`<p class="bad" role="alert">${error.message}</p>` : html`<pre class="code" tabindex="0" aria-label="The test">${made?.text ?? ""}</pre>`}</${Dialog}>`;
}

function Aim({ asked, close }) {
  const [state, setState] = useState({ busy: false, error: null, shot: null });
  async function shoot(event) {
    event.preventDefault();
    const { url, secret } = event.target.elements;
    setState({ busy: true, error: null, shot: null });
    try {
      setState({ busy: false, error: null, shot: await call("POST", "sim/aim", { url: url.value, secret: secret.value, play: asked }) });
    } catch (error) {
      setState({ busy: false, error, shot: null });
    }
  }
  const { shot } = state;
  return html`<${Dialog} title="Aim at my URL" wide onClose=${close} foot=${html`<span class="grow"></span><button class="btn" type="button" onClick=${close}>Close</button><button class="btn primary" type="submit" form="aim" disabled=${state.busy}>${state.busy ? "Sending" : "Send the copies"}</button>`}>
    <form id="aim" class="form2" onSubmit=${shoot}><label class="lab">Your receiver’s URL<input class="input mono" name="url" type="url" required placeholder="http://127.0.0.1:8000/webhooks/hooklane" /><small>On this machine, or in a network that the operator allowed</small></label>
      <label class="lab">Its signing secret<input class="input mono" name="secret" type="password" required autocomplete="off" placeholder="whsec_…" /><small>Used for these copies and kept nowhere</small></label></form>
    <div role="status">${state.error && html`<p class="bad">${state.error.message}</p>`}${shot && html`<p><b>${counted(shot.copies.length, "copy", "copies")} of ${counted(shot.events, "event")}: ${shot.accepted} accepted${shot.applied_twice === null ? "" : `, ${shot.applied_twice} applied twice`}</b></p>`}</div>
    ${shot && html`<div class="tbl-wrap"><table class="tbl"><thead><tr><th>Event</th><th class="r">Try</th><th>Answer</th><th>Said</th><th>By the sender</th></tr></thead><tbody>
      ${shot.copies.map((one) => html`<tr><td class="mono">${one.key}:${one.seq}</td><td class="r">${one.try}</td><td>${one.status ?? one.failure}</td><td>${one.said ?? "–"}</td><td>${one.ack_lost ? "never heard" : "heard"}</td></tr>`)}</tbody></table></div>`}
  </${Dialog}>`;
}

