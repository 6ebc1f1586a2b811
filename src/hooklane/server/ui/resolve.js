// The ways out of a blocked lane: replay, which keeps the order, and skip, which gives an event up.

import { call } from "./api.js";
import { html, useEffect, useRef, useState } from "./kit.js";
import { clock, endpointName, inPortal } from "./live.js";
import { Act, Cell, Dialog, Icon, said, Skeleton } from "./parts.js";
import { auditLink, isGood, jobLine, makePlan, runPlan, stopJob } from "./plan_run.js";
import { atTime, counted, number } from "./words.js";

/** So long a skip can be taken back after the button was pressed. */
const GRACE_S = 5;

export async function replayOne(letter) {
  if (inPortal()) {
    await call("POST", `dead-letters/${encodeURIComponent(letter)}/replay`);
    return said("It is sent again.");
  }
  const plan = await makePlan("replay", { ids: [letter] });
  if (!plan.counts.members) throw new Error(plan.refused[0]?.why ?? "It was replayed or skipped in the meantime.");
  const job = await runPlan(plan);
  return said(`${jobLine(job)}.`, { bad: !isGood(job), link: auditLink });
}

function usePlan(op, wanted) {
  const [plan, setPlan] = useState(null);
  const [error, setError] = useState(null);
  async function make() {
    setError(null);
    setPlan(null);
    try {
      setPlan(await makePlan(op, wanted));
    } catch (problem) {
      setError(problem);
    }
  }
  useEffect(() => void make(), []);
  return { plan, error, setError, make };
}

/** Whether the dialog is still there when its job has ended: it may have been closed meanwhile, and another opened. */
function useIsOpen() {
  const isOpen = useRef(true);
  useEffect(() => () => void (isOpen.current = false), []);
  return () => isOpen.current;
}

/** So many seconds are left in which a job can still be stopped. */
const graceOf = (job, now) => (job?.state === "running" && job.starts_at ? Math.max(0, Math.ceil((Date.parse(job.starts_at) - now) / 1000)) : 0);

const Frozen = ({ plan }) => html`<span class="faint num grow">Plan ${plan.id.slice(-4)}, frozen ${atTime(plan.created_at)}, ${validFor(plan)}</span>`;

function validFor(plan) {
  const left = Math.max(0, Math.round((Date.parse(plan.expires_at) - clock.value) / 1000));
  return left ? `valid for ${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}` : "expired";
}

/** A plan that the server refuses: what changed, and the way to look again. */
const Refusal = ({ error, make }) => html`<div class="failed card" role="alert"><${Icon} name="warn" /><div class="grow"><b>${error.code === "plan_changed" ? "The set has changed; nothing was done." : "Nothing was done."}</b>
  <p>${error.message}</p>${error.errors?.length > 0 && html`<p class="mono any">${error.errors.map((one) => one.id ?? one.detail ?? "").slice(0, 5).join(", ")}</p>`}</div>
  <button class="btn" type="button" onClick=${make}>Make a new plan</button></div>`;

export function ReplayDialog({ wanted, close }) {
  const { plan, error, setError, make } = usePlan("replay", wanted);
  const isOpen = useIsOpen();
  const [job, setJob] = useState(null);
  const [rate, setRate] = useState("");
  async function run() {
    try {
      const done = await runPlan(plan, Number(rate) > 0 ? { rate: Number(rate) } : {}, setJob);
      said(`${jobLine(done)}.`, { bad: !isGood(done), link: auditLink });
      if (isOpen()) close(true);
    } catch (problem) {
      setError(problem);
    }
  }
  const many = plan?.counts.members ?? 0;
  const foot = html`${plan && html`<${Frozen} plan=${plan} />`}<span class="grow"></span><button class="btn" type="button" onClick=${() => close()}>${job ? "Close" : "Cancel"}</button>
    ${plan && many > 0 && !error && html`<${Act} class="primary" run=${run}>Replay ${number(many)}</${Act}>`}`;
  return html`<${Dialog} title=${plan ? `Replay ${counted(many, "dead letter")} on ${counted(plan.counts.keys, "key")}?` : "Replay dead letters?"} onClose=${close} foot=${foot}
    label=${html`<p>Each is sent again with the same id, seq and bytes. The order inside a key stays; a key stops at its first new failure.</p>`}>
    ${error && html`<${Refusal} error=${error} make=${make} />`}
    ${!plan && !error && html`<${Skeleton} rows=${3} height=${33} />`}
    ${plan && html`<div class="blast"><div class="part sent"><h3>Sent again<br />${counted(many, "event")}</h3><div>
        ${plan.by_key.slice(0, 12).map((one) => html`<p class="ev-line"><b class="mono ell" dir="auto">${one.key ?? "no key"}</b><span class="faint ell">${endpointName(one.endpoint)}</span><span class="num">${counted(one.members, "event")}</span></p>`)}
        ${plan.by_key.length > 12 && html`<p class="faint">and ${counted(plan.by_key.length - 12, "more key")}</p>`}${many === 0 && html`<p>Nothing that fits is dead any more.</p>`}</div></div>
      ${plan.counts.refused > 0 && html`<div class="part sees"><h3>Left alone<br />${number(plan.counts.refused)}</h3><div>${plan.refused.slice(0, 5).map((one) => html`<p>${one.why}</p>`)}</div></div>`}
      ${plan.warnings.length > 0 && html`<div class="part sees"><h3>Mind</h3><div>${plan.warnings.map((text) => html`<p>${text}</p>`)}</div></div>`}</div>
      ${many > 1 && html`<label class="lab">Events a second<input class="input" type="number" min="0.1" max="1000" step="any" placeholder="as fast as the endpoint allows" value=${rate} onInput=${(event) => setRate(event.target.value)} /></label>`}`}
    ${job && html`<${Progress} job=${job} />`}
  </${Dialog}>`;
}

const Progress = ({ job }) => html`<div class="progress" role="status"><progress max=${Math.max(1, job.members)} value=${job.settled} aria-label="How far the job is"></progress><span class="num">${number(job.settled)} of ${number(job.members)}: ${jobLine(job)}</span></div>`;

/** Skip one dead letter: names what is never delivered, and every event that is released by it. Who leaves while it can be stopped stops it. */
export function SkipDialog({ letter, lane, close }) {
  const { plan, error, setError, make } = usePlan("skip", { ids: [letter] });
  const isOpen = useIsOpen();
  const [note, setNote] = useState("");
  const [typed, setTyped] = useState("");
  const [job, setJob] = useState(null);
  const release = plan?.releases[0];
  const many = release ? release.released.length + release.more : 0;
  const isReady = Boolean(plan?.counts.members && note.trim() && typed === lane.key);
  const stop = (one) => void stopJob(one).catch((problem) => said(problem.message, { bad: true }));
  function told(one) {
    if (isOpen()) setJob(one);
    else if (graceOf(one, Date.now())) stop(one);
  }
  async function run() {
    try {
      const done = await runPlan(plan, { note: note.trim(), grace_s: GRACE_S }, told);
      const isDone = done.state === "done" && isGood(done);
      said(isDone ? `Skipped #${lane.head} of ${lane.key}, released ${number(many)}.` : `${jobLine(done)}.`, { bad: done.state === "done" && !isDone, link: auditLink });
      if (isOpen()) close(true);
    } catch (problem) {
      setJob(null);
      setError(problem);
    }
  }
  const left = graceOf(job, clock.value);
  const leave = () => (left > 0 ? stop(job) : close());
  const foot = html`${plan && html`<${Frozen} plan=${plan} />`}<span class="grow"></span>
    ${job ? html`<span class="num" role="status">${left ? `Skips in ${left} s` : "Skipping"}</span>${left > 0 && html`<${Act} key="stop" run=${() => stopJob(job)}>Stop it</${Act}>`}`
      : html`<button class="btn" type="button" onClick=${() => close()}>Cancel</button>
        <${Act} key="skip" class="danger" disabled=${!isReady || Boolean(error)} title=${isReady ? undefined : "Write a note and type the key first"} run=${run}>Skip 1, release ${number(many)}</${Act}>`}`;
  return html`<${Dialog} title=${html`Skip <span class="mono">${lane.key} #${lane.head}</span> and release the key?`} onClose=${leave} foot=${foot}
    label=${html`<p>Replaying is safer: it sends #${lane.head} again and keeps the order. Skip only what must never arrive.</p>`}>
    ${error && html`<${Refusal} error=${error} make=${make} />`}
    ${!plan && !error && html`<${Skeleton} rows=${4} height=${33} />`}
    ${plan && plan.counts.members === 0 && html`<p>${plan.refused[0]?.why ?? "It was replayed or skipped in the meantime; there is nothing to skip."}</p>`}
    ${plan && plan.counts.members > 0 && html`<${Blast} plan=${plan} release=${release} lane=${lane} many=${many} />
    <div class="form2"><label class="lab">Note, goes on record<textarea class="input" rows="2" required value=${note} disabled=${Boolean(job)} onInput=${(event) => setNote(event.target.value)}></textarea></label>
      <label class="lab">Type the key to confirm<input class=${`input mono ${typed === lane.key ? "ok" : ""}`} autocomplete="off" spellcheck=${false} dir="auto" value=${typed} disabled=${Boolean(job)} onInput=${(event) => setTyped(event.target.value)} /><small>${many ? `Cannot be undone once #${lane.head + 1} has left.` : "Cannot be undone."}</small></label></div>`}
  </${Dialog}>`;
}

/** What the skip does, from the frozen plan. */
const Blast = ({ plan, release, lane, many }) => html`<div class="blast">
  <div class="part never"><h3>Never delivered<br />1 event</h3><div><${Placed} event=${release?.skipped ?? { seq: lane.head, type: lane.head_type }} state="dead" /></div></div>
  <div class="part sent"><h3>${many ? "Sent at once, in this order" : "Sent at once"}<br />${counted(many, "event")}</h3><div><div class="released" tabindex="0" role="list" aria-label="Events that will be released">
    ${release?.released.map((one) => html`<${Placed} key=${one.seq} event=${one} state="queued" />`)}</div>
    ${release?.more > 0 && html`<p class="faint">and ${counted(release.more, "more event")} behind them</p>`}
    <p class="mute any">${many ? "to" : "Nothing waits behind it at"} ${release?.url || endpointName(lane.endpoint)}</p></div></div>
  ${release && html`<div class="part sees"><h3>The consumer sees</h3><div><p><b>${release.sees.replace("→", "to")}</b></p>${plan.warnings.map((text) => html`<p>${text}${text.endsWith(".") ? "" : "."}</p>`)}</div></div>`}</div>`;

const Placed = ({ event, state }) => html`<div class="ev" role=${state === "queued" ? "listitem" : undefined} data-seq=${event.seq}>${event.seq !== null && html`<${Cell} seq=${event.seq} state=${state} />`}<b class="ell">${event.type}</b><code class="pay ell">${event.data_excerpt ?? ""}</code></div>`;
