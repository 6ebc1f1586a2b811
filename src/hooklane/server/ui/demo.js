// The demo's steps: break one key or the whole receiver, watch, mend it, resolve. Only under `hooklane dev --demo`.

import { call, get } from "./api.js";
import { html, useState } from "./kit.js";
import { overview, useLoad } from "./live.js";
import { Act, said } from "./parts.js";
import { isGood, jobLine, makePlan, runPlan } from "./plan_run.js";
import { counted } from "./words.js";

const MENDED = { receiver: "ok", broken: [] };

/** Which of the three steps a person is at, and what it says. */
function stepOf(state, blocked) {
  const key = state.broken[0];
  if (key) return [2, blocked ? `Watch: ${key} stops, the others flow on` : `Watch: ${key} fails, then stops`];
  if (state.receiver === "down") return [2, "Watch: every key of the receiver holds its head; nothing slips past"];
  if (state.receiver === "lost_ack") return [2, "Watch: answers get lost, copies arrive, each is applied once"];
  return blocked ? [3, "Mended. What failed stays until you resolve it"] : [1, "Break one key and watch"];
}

export function Demo() {
  const load = useLoad(() => get("demo"), []);
  const [changed, setChanged] = useState(null);
  const state = changed ?? load.value;
  if (!state) return null;
  const blocked = overview.value?.lanes?.blocked ?? 0;
  const [at, says] = stepOf(state, blocked);
  const isMended = state.receiver === "ok" && !state.broken.length;
  const set = async (change) => setChanged(await call("POST", "demo", change));
  async function resolve() {
    const job = await runPlan(await makePlan("replay", { filter: { state: "dead" } }));
    said(`${jobLine(job)}.`, { bad: !isGood(job) });
  }
  const steps = [at === 1 ? says : "Break", at === 2 ? says : "Watch", at === 3 ? says : "Mend, then resolve"];
  return html`<section class="card strip" aria-label="Demo"><b>Demo</b>
    <ol class="steps">${steps.map((text, n) => html`<li aria-current=${n + 1 === at ? "step" : undefined}><i>${n + 1}</i>${text}</li>`)}</ol><span class="grow"></span>
    <div class="bar">${isMended
      ? html`<${Act} class=${`small ${blocked ? "" : "primary"}`} run=${() => set({ receiver: "ok", broken: [state.keys[0]] })}>Break one key</${Act}>
          <${Act} class="small" run=${() => set({ receiver: "down", broken: [] })}>Receiver down</${Act}><${Act} class="small" run=${() => set({ receiver: "lost_ack", broken: [] })}>Lose its answers</${Act}>`
      : html`<${Act} class="small primary" run=${() => set(MENDED)}>Mend</${Act}>`}
      ${isMended && blocked > 0 && html`<${Act} class="small primary" run=${resolve}>Resolve ${counted(blocked, "blocked lane")}</${Act}>`}
      <${Act} class="small" run=${() => set({ producing: !state.producing })}>${state.producing ? "Stop producing" : "Produce"}</${Act}></div>
  </section>`;
}
