// How numbers, times and states are said. Pure.

export const STATES = {
  queued: "queued",
  in_flight: "in flight",
  retrying: "retrying",
  delivered: "delivered",
  waiting: "waiting behind a blocked head",
  dead: "dead",
  skipped: "skipped",
  cancelled: "cancelled",
};

export const LANE_STATES = { blocked: "Blocked", retrying: "Retrying", active: "Moving", paused: "Paused", idle: "Idle" };

/** 12,345; what is not known is a dash, and never a zero. By hand: to make a NumberFormat takes longer than a screen. */
export const number = (value) => (value === null || value === undefined ? "–" : String(value).replace(/\B(?<!\.\d*)(?=(\d{3})+(?!\d))/g, ","));

/** For badges: 999, then 1.2K. */
export function compact(value) {
  const power = value < 999.5 ? 0 : value < 999_500 ? 1 : value < 999_500_000 ? 2 : 3;
  const part = value / 1000 ** power;
  return `${power && part < 99.95 ? Number(part.toFixed(1)) : Math.round(part)}${["", "K", "M", "B"][power]}`;
}

/** counted(1, "lane") is "1 lane". */
export const counted = (many, one, more = `${one}s`) => `${number(many)} ${many === 1 ? one : more}`;

/** A rate: 0.4, 12, 1,204. */
export function rate(value) {
  if (value === null || value === undefined) return "–";
  return value === 0 ? "0" : value < 10 ? value.toFixed(1) : number(Math.round(value));
}

/** A share: 100, 99.98, 0. Never rounded up to 100. */
export function percent(share) {
  if (share === null || share === undefined) return "–";
  const value = share * 100;
  if (value === 100 || value === 0) return String(value);
  return (Math.floor(value * 100) / 100).toFixed(value > 99 || value < 1 ? 2 : 1);
}

/** Of milliseconds: [number, unit]. */
export function millis(value) {
  if (value === null || value === undefined) return ["–", ""];
  if (value < 1000) return [value < 10 ? value.toFixed(1) : String(Math.round(value)), "ms"];
  if (value < 60_000) return [(value / 1000).toFixed(value < 10_000 ? 1 : 0), "s"];
  return [String(Math.round(value / 60_000)), "min"];
}

export const millisText = (value) => millis(value).join(" ").trim();

/** A length of time: "4 s", "12 min", "3 h", "2 d". */
export function span(ms) {
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export const since = (time, now) => (time ? span(now - Date.parse(time)) : "");

export const ago = (time, now) => (!time ? "–" : now - Date.parse(time) < 2000 ? "just now" : `${since(time, now)} ago`);

let isUtc = false;
/** Whether times are said in UTC, and then with a Z; otherwise as the clock of this machine has them. */
export const setUtc = (value) => (isUtc = value);
export const inUtc = () => isUtc;

/** 14:02:11 of today, with the day before it otherwise. */
export function atTime(time, now = Date.now()) {
  if (!time) return "–";
  const at = new Date(time);
  if (isUtc) return `${at.toISOString().slice(0, 10) === new Date(now).toISOString().slice(0, 10) ? "" : `${at.toISOString().slice(0, 10)} `}${at.toISOString().slice(11, 19)}Z`;
  const day = at.toDateString() === new Date(now).toDateString() ? "" : `${at.toLocaleDateString("en-CA")} `;
  return day + at.toTimeString().slice(0, 8);
}

/** In so many seconds; "now" when that is over. */
export function until(time, now) {
  const left = Date.parse(time) - now;
  return left <= 0 ? "now" : `in ${span(left)}`;
}

export const tries = (many) => counted(many, "try", "tries");

/** What an attempt came to: its status, or why there is none. */
export const resultOf = (attempt) => (attempt.status ? String(attempt.status) : (attempt.failure ?? "no answer").replaceAll("_", " "));

/** 1.2 MB. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; value >= 1000 && at < units.length - 1; at++) value /= 1000;
  return `${at && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

/** An address without its scheme, for reading. */
export const shortUrl = (url) => url.replace(/^https?:\/\//, "").replace(/\/$/, "");
