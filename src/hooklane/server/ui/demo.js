// The demo's controls: break one key or the whole receiver, mend it, replay. They exist only under `hooklane dev --demo`.

import { call } from "./api.js";
import { tell } from "./ask.js";
import { h, write } from "./dom.js";

const MENDED = { receiver: "ok", broken: [] };
const SAYS = {
  ok: "The receiver answers. Break one key and watch: it stops, the others flow on.",
  down: "The receiver answers 503 to every key. Each lane retries its head, then stops; nothing slips past it.",
  lost_ack: "The receiver works, but its answers get lost. It sees copies and applies each event once.",
};

/** Fills *section*; what it returns is told how many lanes are blocked. */
export async function demo(section) {
  let state = await call("GET", "demo");
  let blocked = 0;
  const says = h("p", { role: "status" });
  const button = (word, run) => h("button", { class: "button", type: "button", onclick: () => attempt(run) }, word);
  const breakKey = button("Break one key", () => set({ receiver: "ok", broken: [state.keys[0]] }));
  const down = button("Receiver down", () => set({ receiver: "down", broken: [] }));
  const lose = button("Lose its answers", () => set({ receiver: "lost_ack", broken: [] }));
  const mend = button("Mend it", () => set(MENDED));
  const replay = button("Replay", replayBlocked);
  const producer = button("Stop producing", () => set({ producing: !state.producing }));
  const buttons = h("div", { class: "actions" }, breakKey, down, lose, mend, replay, producer);
  section.append(h("h2", {}, "Demo"), says, buttons);
  section.hidden = false;

  async function attempt(run) {
    try {
      await run();
    } catch (error) {
      await tell("That did not work", error.message);
    }
  }

  async function set(change) {
    state = await call("POST", "demo", change);
    draw();
  }

  /** All dead heads in one job, as `hooklane dlq replay` does it: a plan, and then exactly that plan. */
  async function replayBlocked() {
    const plan = await call("POST", "plans", { op: "replay", filter: { state: "dead" } });
    await call("POST", `plans/${plan.id}/run`, { digest: plan.digest });
  }

  function draw() {
    const key = state.broken[0];
    const isMended = state.receiver === "ok" && !key;
    write(says, key ? `${key} is broken: its head fails, then stops its lane. The other keys flow on.` : sentence(isMended));
    const pressed = [[breakKey, Boolean(key)], [down, state.receiver === "down"], [lose, state.receiver === "lost_ack"], [mend, isMended]];
    for (const [one, is] of pressed) one.setAttribute("aria-pressed", String(is));
    write(replay, blocked ? `Replay ${blocked} blocked` : "Replay blocked");
    replay.disabled = blocked === 0;
    replay.classList.toggle("primary", isMended && blocked > 0);
    write(producer, state.producing ? "Stop producing" : "Produce");
  }

  function sentence(isMended) {
    if (!isMended || !blocked) return SAYS[state.receiver];
    return "The receiver is mended. What failed before stays where it is until you replay it: one click for all.";
  }

  draw();
  return {
    blocked(count) {
      blocked = count;
      draw();
    },
  };
}
