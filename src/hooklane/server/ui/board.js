// The board: one row per lane, changed in place.

import { cellsOf, order, sentence, WORDS } from "./cells.js";
import { arrange, h, icon, write } from "./dom.js";

const LANES_MAX = 200;
const nameOf = (lane) => `${lane.endpoint}\n${lane.key}`;

export class Board {
  /** act(what, lane) is called when a button of a row is pressed. */
  constructor(list, act) {
    this.list = list;
    this.act = act;
    this.rows = new Map();
    this.search = "";
  }

  /** Start anew from a list of lanes with their deliveries. */
  load(lanes) {
    const kept = new Map();
    for (const lane of lanes) {
      const row = this.rows.get(nameOf(lane)) ?? new Row(this.act);
      row.settle(lane.deliveries ?? []);
      row.update(lane);
      kept.set(nameOf(lane), row);
    }
    this.rows = kept;
    this.place();
  }

  /** Take in lanes that changed. */
  merge(lanes) {
    for (const lane of lanes) {
      let row = this.rows.get(nameOf(lane));
      if (!row) {
        row = new Row(this.act);
        this.rows.set(nameOf(lane), row);
      }
      row.settle(lane.deliveries ?? []);
      row.update(lane);
    }
    this.trim();
    this.place();
  }

  /** The board has room for so many: those that need attention stay. */
  trim() {
    if (this.rows.size <= LANES_MAX) return;
    const rows = [...this.rows.entries()].sort(([, a], [, b]) => order(a.lane, b.lane));
    this.rows = new Map(rows.slice(0, LANES_MAX));
  }

  /** Mark what was skipped or cancelled in a lane that is already shown. */
  settle(lane) {
    const row = this.rows.get(nameOf(lane));
    row?.settle(lane.deliveries);
    row?.draw();
  }

  filter(text) {
    this.search = text.toLowerCase();
    this.place();
  }

  /** Countdowns go on between two messages of the server. */
  tick() {
    for (const row of this.rows.values()) row.describe();
  }

  get size() {
    return this.rows.size;
  }

  place() {
    const shown = [...this.rows.values()].filter((row) => row.lane.key.toLowerCase().includes(this.search));
    shown.sort((a, b) => order(a.lane, b.lane));
    arrange(this.list, shown.map((row) => row.element));
  }
}

class Row {
  constructor(act) {
    this.settled = new Map();
    this.key = h("h3", { class: "key" });
    this.endpoint = h("p", { class: "endpoint" });
    this.cells = h("ol", { class: "cells" });
    this.more = h("span", { class: "more" });
    this.says = h("p", { class: "says" });
    const button = (word, kind) => h("button", { class: kind, type: "button", onclick: () => act(word, this.lane) });
    this.replay = button("replay", "button primary");
    this.skip = button("skip", "button");
    this.why = button("why", "button quiet");
    this.replay.append("Replay");
    this.skip.append("Skip…");
    this.why.append("Why?");
    this.actions = h("div", { class: "actions" }, this.replay, this.skip, this.why);
    this.element = h(
      "li",
      { class: "lane" },
      h("div", { class: "name" }, this.key, this.endpoint),
      h("div", { class: "track" }, this.cells, this.more),
      this.says,
      this.actions,
    );
  }

  /** Remember what was skipped or cancelled: head and tail alone do not tell. */
  settle(deliveries) {
    for (const one of deliveries) {
      if (one.state === "skipped" || one.state === "cancelled") this.settled.set(one.seq, one.state);
    }
  }

  update(lane) {
    this.lane = lane;
    this.element.dataset.state = lane.state;
    write(this.key, lane.key);
    write(this.endpoint, lane.endpoint_name || lane.endpoint);
    this.draw();
    this.describe();
    const dead = lane.state === "blocked" && lane.dead_letter;
    this.replay.hidden = this.skip.hidden = !dead;
    this.why.hidden = lane.state !== "blocked" && lane.state !== "retrying";
    const about = `#${lane.head} of ${lane.key}`;
    this.replay.setAttribute("aria-label", `Replay ${about}`);
    this.skip.setAttribute("aria-label", `Skip ${about}`);
    this.why.setAttribute("aria-label", `Why does ${lane.key} wait?`);
  }

  draw() {
    const { cells, more } = cellsOf(this.lane, this.settled);
    const have = new Map([...this.cells.children].map((cell) => [cell.dataset.seq, cell]));
    const wanted = cells.map(({ seq, state }) => {
      const cell = have.get(String(seq)) ?? h("li", { class: "cell", "data-seq": seq });
      if (cell.dataset.state !== state) {
        cell.dataset.state = state;
        cell.title = `#${seq} ${WORDS[state]}`;
        cell.replaceChildren(
          icon(state),
          h("span", { class: "seq" }, String(seq)),
          h("span", { class: "visually-hidden" }, ` ${WORDS[state]}`),
        );
      }
      cell.classList.toggle("head", seq === this.lane.head);
      return cell;
    });
    arrange(this.cells, wanted);
    write(this.more, more ? `+${more}` : "");
  }

  describe() {
    write(this.says, sentence(this.lane, Date.now()));
  }
}
