// The lanes that the page knows, in groups: what is loaded, what the stream changes, and when a row may move.

import { batch, signal } from "./kit.js";

const GROUPS = ["blocked", "retrying", "paused", "active", "idle"];
/** So many rows are drawn; search finds the rest. */
export const DRAWN_MAX = 200;
const KEPT_MAX = 1000;
/** A row changes its group when it has been at rest for so long: nothing jumps under the pointer. */
const REST_MS = 2000;
/** A lane that has come to rest stands among the moving ones for a while: most of them move again. */
const LATELY_MS = 10_000;

/** One for all comparisons: to make one takes longer than to sort with it. */
const { compare } = new Intl.Collator(undefined, { numeric: true });

const nameOf = (lane) => `${lane.endpoint}/${lane.key}`;

export class LaneModel {
  constructor() {
    this.rows = new Map();
    /** [{group, rows}], anew whenever a row changes its group. */
    this.groups = signal([]);
    this.filter = {};
    /** The number of the load that is under way, 0 for none; an answer that was overtaken is dropped. */
    this.loading = 0;
    this.loads = 0;
    this.missed = new Map();
  }

  /** A load begins: what the stream tells from now on is newer than its answer, and is taken in after it. */
  begin() {
    this.missed = new Map();
    this.loading = ++this.loads;
    return this.loading;
  }

  fail(load) {
    if (load === this.loading) this.end();
  }

  /** Start anew from lanes that the server found; more of them may follow. */
  load(load, lanes, filter, isWhole = true) {
    if (load !== this.loading) return;
    this.filter = filter;
    batch(() => {
      this.rows = new Map(lanes.map((lane) => [nameOf(lane), this.taken(this.rows.get(nameOf(lane)), lane)]));
      this.place();
      if (isWhole) this.end();
    });
  }

  end() {
    const missed = this.missed;
    [this.loading, this.missed] = [0, new Map()];
    this.merge([...missed.values()]);
  }

  /** Take in lanes that changed. */
  merge(lanes) {
    if (this.loading) {
      for (const lane of lanes) this.missed.set(nameOf(lane), lane);
      return;
    }
    batch(() => {
      let grown = false;
      for (const lane of lanes) {
        const name = nameOf(lane);
        const row = this.rows.get(name);
        if (!row && !this.fits(lane)) continue;
        grown ||= !row;
        this.rows.set(name, row ? this.taken(row, lane) : newRow(lane, Date.now()));
      }
      if (grown) this.place();
    });
  }

  /** The latest attempt of each lane: what the receiver said, and how long it took. */
  attempted(attempts) {
    batch(() => {
      for (const one of attempts) {
        const row = this.rows.get(nameOf(one));
        if (row) row.last.value = one;
      }
    });
  }

  /** Called twice a second: rows whose group has been another one for a while move there. */
  settle(now = Date.now()) {
    let moves = false;
    for (const row of this.rows.values()) moves = stir(row, now) || moves;
    if (moves) this.place();
  }

  taken(row, lane) {
    if (!row) return newRow(lane, 0);
    settledOf(row.settled, lane);
    const old = row.lane.peek();
    if (old.head !== lane.head || old.tail !== lane.tail || old.in_flight !== lane.in_flight) row.movedAt = Date.now();
    row.lane.value = lane;
    return row;
  }

  fits(lane) {
    const { endpoint, q, states } = this.filter;
    return (!endpoint || lane.endpoint === endpoint) && (!q || (lane.key ?? "").toLowerCase().includes(q.toLowerCase())) && (!states || states.includes(lane.state));
  }

  /** What was asked for by its state, and is no longer so, goes when it has rested. */
  leave() {
    const { states } = this.filter;
    if (!states) return;
    for (const [name, row] of this.rows) if (!states.includes(row.group) && !states.includes(row.lane.peek().state)) this.rows.delete(name);
  }

  place() {
    this.leave();
    this.trim();
    const groups = new Map(GROUPS.map((group) => [group, []]));
    for (const row of this.rows.values()) groups.get(row.group).push(row);
    this.groups.value = [...groups].filter(([, rows]) => rows.length).map(([group, rows]) => ({ group, rows: rows.sort(order) }));
    // What is in order already is sorted again in no time.
    this.rows = new Map(this.groups.value.flatMap(({ rows }) => rows.map((row) => [row.name, row])));
  }

  /** The page keeps so many: those that need attention stay. */
  trim() {
    if (this.rows.size <= KEPT_MAX) return;
    const rows = [...this.rows.values()].sort((a, b) => GROUPS.indexOf(a.group) - GROUPS.indexOf(b.group) || b.movedAt - a.movedAt);
    this.rows = new Map(rows.slice(0, KEPT_MAX).map((row) => [row.name, row]));
  }
}

/** A row of a lane that the page did not know; *movedAt* says when it moved, if that is known. */
function newRow(lane, movedAt) {
  const group = groupOf(lane, movedAt, Date.now());
  return { name: nameOf(lane), lane: signal(lane), last: signal(null), settled: settledOf(new Map(), lane), group, wanted: group, wantedAt: 0, movedAt };
}

/** Where a lane belongs: by its state, and at rest it stands among those that move for a while. */
const groupOf = (lane, movedAt, now) => (lane.state === "idle" && now - movedAt < LATELY_MS ? "active" : lane.state);

/** Moves a row to the group that it has wanted for long enough; true when it moved. */
function stir(row, now) {
  const wanted = groupOf(row.lane.peek(), row.movedAt, now);
  if (wanted !== row.wanted) [row.wanted, row.wantedAt] = [wanted, now];
  if (row.group === wanted || now - row.wantedAt < REST_MS) return false;
  row.group = wanted;
  return true;
}

/** Remember what was skipped or cancelled: head and tail alone do not tell. */
function settledOf(settled, lane) {
  for (const [seq, state] of lane.settled ?? []) settled.set(seq, state);
  for (const one of lane.deliveries ?? []) if (one.state === "skipped" || one.state === "cancelled") settled.set(one.seq, one.state);
  return settled;
}

/** What waits for a person or a retry stands by age, the oldest first; the rest by name, so that it keeps its place. */
function order(a, b) {
  const [x, y] = [a.lane.peek(), b.lane.peek()];
  const byAge = a.group === "blocked" || a.group === "retrying" ? inTime(x.since ?? "", y.since ?? "") : 0;
  return byAge || compare(x.key ?? "", y.key ?? "") || compare(x.endpoint, y.endpoint);
}

/** Times of the server are text of one length. */
const inTime = (a, b) => (a < b ? -1 : Number(a > b));
