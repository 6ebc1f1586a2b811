// A retry policy as a picture: when each try is made if all of them fail, with the band that jitter makes.

import { html } from "./kit.js";
import { span, tries } from "./words.js";

const JITTER = 0.25;
/** A wide picture shrunk to a phone cannot be read. */
const [WIDE, NARROW] = [1000, 340];
const LABEL = 44;
const FIRST_MS = 200;
const DRAWN_MAX = 200;

/** [[first, last], …]: milliseconds after the first try. The delay doubles from backoff_ms up to its cap. */
function triesOf({ attempts_max: most, backoff_ms: backoff, backoff_cap_ms: cap }) {
  const all = [[0, 0]];
  for (let n = 1; n < Math.min(most, DRAWN_MAX); n++) {
    const delay = Math.min(cap, backoff * 2 ** Math.min(n - 1, 40));
    const [first, last] = all.at(-1);
    all.push([first + delay, last + delay * (1 + JITTER)]);
  }
  return all;
}

export function Schedule({ endpoint }) {
  const all = triesOf(endpoint);
  const end = Math.max(1000, all.at(-1)[1]);
  const width = matchMedia("(max-width: 720px)").matches ? NARROW : WIDE;
  const x = (ms) => 6 + ((width - 12) * Math.log1p(ms / FIRST_MS)) / Math.log1p(end / FIRST_MS);
  const marks = [1000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000].filter((ms) => x(end) - x(ms) > LABEL);
  return html`<svg class="schedule" viewBox=${`0 0 ${width} 46`} role="img" aria-label=${`${tries(endpoint.attempts_max)} over ${span(end)}, quickly at first`}>
    <rect x="6" y="15" width=${width - 12} height="2" class="f-line" />
    ${all.map(([first, last]) => html`<rect x=${x(first) - 2} y="8" width=${Math.max(4, x(last) - x(first) + 4)} height="16" rx="2" class="f-retry band" />`)}
    ${marks.map((ms) => html`<text x=${x(ms)} y="42" text-anchor="middle">${span(ms)}</text>`)}<text x=${width - 6} y="42" text-anchor="end">${span(end)}</text></svg>
    <p class="mute">${endpoint.attempts_max === 1 ? "One try" : `${endpoint.attempts_max} tries over ${[...new Set([span(all.at(-1)[0]), span(end)])].join(" to ")}`}; the axis is logarithmic, and a bar is as wide as jitter makes it.</p>`;
}
