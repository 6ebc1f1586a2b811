// Tries on a time axis: quick at first, then slower, so the axis is logarithmic. The coming ones are drawn ahead.

import { html } from "./kit.js";
import { resultOf, span, tries } from "./words.js";

const WIDTH = 340;
const EDGE = 8;
const FIRST_MS = 500;

/** Where on the axis is a moment, so many milliseconds after the first try? */
const scale = (endMs) => (ms) => EDGE + ((WIDTH - 2 * EDGE) * Math.log1p(Math.max(0, ms) / FIRST_MS)) / Math.log1p(endMs / FIRST_MS);

export function TriesAxis({ attempts, forecast = [] }) {
  const start = Date.parse(attempts[0].started_at);
  const at = (time) => Date.parse(time) - start;
  const coming = forecast.slice(0, 12);
  const end = Math.max(1000, at(attempts.at(-1).started_at), ...coming.map((one) => at(one.to)));
  const x = scale(end);
  const marks = [1000, 60_000, 3_600_000, 86_400_000].filter((ms) => ms < end * 0.8);
  const label = `${tries(attempts.length)}, the last one ${resultOf(attempts.at(-1))}; ${coming.length} more are forecast`;
  return html`<svg class="axis" viewBox="0 0 ${WIDTH} 40" role="img" aria-label=${label}>
    <rect x=${EDGE} y="15" width=${WIDTH - 2 * EDGE} height="2" class="f-line" />
    ${coming.map((one) => html`<rect x=${x(at(one.from))} y="11" width=${Math.max(4, x(at(one.to)) - x(at(one.from)))} height="10" rx="4" class="f-soft s-edge" />`)}
    ${attempts.map((one) => html`<circle cx=${x(at(one.started_at))} cy="16" r=${one.outcome === "retry" ? 3.5 : 4.5} class=${{ delivered: "f-good", retry: "f-retry", dead: "f-bad" }[one.outcome]}><title>try ${one.attempt}: ${resultOf(one)}</title></circle>`)}
    ${marks.map((ms) => html`<text x=${x(ms)} y="37" text-anchor="middle">${span(ms)}</text>`)}
    <text x=${WIDTH - EDGE} y="37" text-anchor="end">${span(end)}</text></svg>`;
}
