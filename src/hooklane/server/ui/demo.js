// The demo's controls: break the receiver and mend it. They exist only under `hooklane dev --demo`.

import { call } from "./api.js";
import { h, write } from "./dom.js";

const SAYS = {
  ok: "The receiver answers. Break it and watch: a stuck key stops, the others flow on.",
  down: "The receiver answers 503. Each lane retries its head; nothing slips past it.",
  lost_ack: "The receiver works, but its answers get lost. It sees copies and applies each event once.",
};

export async function demo(section) {
  let state = await call("GET", "demo");
  const says = h("p", { role: "status" });
  const modes = ["ok", "down", "lost_ack"].map((mode) =>
    h("button", { class: "button", type: "button", "data-mode": mode, onclick: () => set({ receiver: mode }) }),
  );
  ["Mend it", "Break it", "Lose its answers"].forEach((word, at) => modes[at].append(word));
  const poison = h("button", { class: "button", type: "button", id: "poison" });
  const producer = h("button", { class: "button", type: "button", id: "producer" });
  poison.addEventListener("click", () => set({ poison: state.poison.length ? [] : [state.keys[0]] }));
  producer.addEventListener("click", () => set({ producing: !state.producing }));
  section.append(h("h2", {}, "Demo"), says, h("div", { class: "actions" }, modes, poison, producer));
  section.hidden = false;

  async function set(change) {
    state = await call("POST", "demo", change);
    draw();
  }

  function draw() {
    write(says, state.poison.length ? `${state.poison.join(", ")} is poisoned: its head will die and block only its lane.` : SAYS[state.receiver]);
    for (const button of modes) button.setAttribute("aria-pressed", String(button.dataset.mode === state.receiver));
    write(poison, state.poison.length ? `Cure ${state.poison[0]}` : `Poison ${state.keys[0]}`);
    poison.setAttribute("aria-pressed", String(state.poison.length > 0));
    write(producer, state.producing ? "Stop producing" : "Produce");
  }
  draw();
}
