// The last hour of an endpoint in bars of two minutes: what was delivered, what failed, and where its breaker held it.

import { get } from "./api.js";
import { html, useEffect, useRef, useState } from "./kit.js";
import { useLoad } from "./live.js";
import { atTime, counted, number, percent, span } from "./words.js";

/** So many endpoints are asked for in one call. */
export const AT_ONCE = 20;
const BAR = 16;
const FOOT = { open: "f-bad", probing: "f-retry", ramping: "f-retry" };

const sum = (values) => values.reduce((all, one) => all + one, 0);
const timeText = (at) => atTime(at).replace(/:\d\dZ?$/, "");

/** By id: {from, stepMs, breaker, delivered, failed}. */
async function fetchHours(ids) {
  if (!ids.length) return {};
  const { from, step_s, items } = await get("endpoints/last-hour", { ids: ids.join(",") });
  return Object.fromEntries(items.map((one) => [one.endpoint, { ...one, from: Date.parse(from), stepMs: 1000 * step_s }]));
}

/** The hours of at most AT_ONCE endpoints. Not at each news of an endpoint, whose figures change every second: a bar lasts two minutes. */
export const useHours = (ids) => useLoad(() => fetchHours(ids), ids, { everyMs: 10_000 }).value ?? {};

/** [ref, whether that element is on the screen or near it]. */
export function useSeen() {
  const element = useRef();
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const watch = new IntersectionObserver((entries) => setSeen(entries.at(-1).isIntersecting), { rootMargin: "200px" });
    watch.observe(element.current);
    return () => watch.disconnect();
  }, []);
  return [element, isSeen];
}

/** "97.1 % of 1,204 tries delivered; the breaker was open for about 6 min". */
export function inWords(hour) {
  const [delivered, failed] = [sum(hour.delivered), sum(hour.failed)];
  const open = hour.breaker.filter((state) => state === "open").length;
  const said = delivered + failed ? `${percent(delivered / (delivered + failed))} % of ${counted(delivered + failed, "try", "tries")} delivered` : "nothing was sent";
  return `Last hour: ${said}${open ? `; the breaker was open in ${span(open * hour.stepMs)} of it` : ""}`;
}

function barText(hour, n) {
  const at = hour.from + n * hour.stepMs;
  const [delivered, failed, state] = [hour.delivered[n], hour.failed[n], hour.breaker[n]];
  const sent = delivered + failed ? `${number(delivered)} delivered${failed ? `, ${number(failed)} failed` : ""}` : "nothing was sent";
  return `${timeText(at)} to ${timeText(at + hour.stepMs)}: ${sent}${FOOT[state] ? `, breaker ${state}` : ""}`;
}

/** Green stands for what was delivered, from the ground up; what failed fills the rest. Below: where the breaker held. */
function Bar({ hour, n, foot }) {
  const [delivered, failed, state] = [hour.delivered[n], hour.failed[n], hour.breaker[n]];
  const all = delivered + failed;
  const high = all ? Math.min(failed ? BAR - 3 : BAR, Math.round((BAR * delivered) / all)) : 0;
  const x = 4 * n;
  return html`<g><title>${barText(hour, n)}</title><rect x=${x} width="4" height="20" class="none" />
    ${failed > 0 && html`<rect x=${x} y="0" width="3" height=${BAR - high} class="f-bad" />`}${high > 0 && html`<rect x=${x} y=${BAR - high} width="3" height=${high} class="f-good" />`}
    ${!all && state && html`<rect x=${x} y=${BAR - 2} width="3" height="2" class="f-line" />`}
    ${foot && FOOT[state] && html`<rect x=${x} y="17" width="4" height="3" class=${FOOT[state]} />`}</g>`;
}

export function Hour({ hour, large = false, foot = true }) {
  const bars = hour?.delivered ?? [];
  return html`<svg class=${large ? "hour large" : "hour"} viewBox=${`0 0 120 ${foot ? BAR + 4 : BAR}`} preserveAspectRatio="none" role="img" aria-label=${hour ? inWords(hour) : "Last hour: not known yet"}>
    <rect y=${BAR - 1} width="119" height="1" class="f-line" />
    ${bars.map((_, n) => html`<${Bar} key=${n} hour=${hour} n=${n} foot=${foot} />`)}</svg>`;
}
