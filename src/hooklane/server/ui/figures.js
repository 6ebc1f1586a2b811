// The two charts of the server's figures over time: attempts by outcome, and from publish to acknowledgement.

import { get } from "./api.js";
import { Chart } from "./chart.js";
import { html } from "./kit.js";
import { endpointName } from "./live.js";
import { millisText, rate } from "./words.js";

const MEASURES = "published,attempts,delivery_ms,backlog,blocked,dead,duplicates,stale";
const TONES = { delivered: "good", retry: "retry", dead: "bad", p50: "flight", p95: "accent", p99: "wait" };

/** So many steps are shown at least, also of a server that has just been started. */
const STEPS_MIN = 6;
/** What is so many at a moment: of these the step that still runs is as true as any other. */
const MOMENTS = ["backlog", "blocked", "dead", "oldest_s"];

export const fetchSeries = async (range, endpoint, m = MEASURES) => whatWasMeasured(await get("series", { m, range, endpoint }));

/** Without the empty time before the first event, and without the step that is still running: what is counted in it would look like a fall. */
export function whatWasMeasured(series) {
  const many = series.series[0]?.values.length ?? 0;
  const isEmpty = (at) => series.series.every(({ values }) => !values[at]);
  let first = 0;
  while (first < many && isEmpty(first)) first++;
  first = Math.max(0, Math.min(first - 1, many - 1 - STEPS_MIN));
  const from = new Date(Date.parse(series.from) + first * series.step_s * 1000).toISOString();
  return { ...series, from, series: series.series.map((one) => ({ ...one, values: one.values.slice(first, MOMENTS.includes(one.m) ? many : many - 1) })) };
}

/** The values of one series; undefined where the server has none. */
export const valuesOf = (series, m, by = "") => series?.series.find((one) => one.m === m && one.by === by)?.values;

const timesOf = (series) => (series.series[0]?.values ?? []).map((_, n) => Date.parse(series.from) / 1000 + n * series.step_s);

const KINDS = { "breaker.open": "breaker opened", "breaker.closed": "breaker closed", "endpoint.paused": "paused", "endpoint.resumed": "resumed", "endpoint.rotated": "secret rotated", "endpoint.created": "created", "endpoint.deleted": "deleted", "job.started": "bulk job" };

export const marksOf = (series) => series.marks.filter((mark) => KINDS[mark.kind]).map((mark) => ({ at: mark.at, label: `${mark.subject.startsWith("ep_") ? `${endpointName(mark.subject)}: ` : ""}${KINDS[mark.kind]}` }));

export function Charts({ series }) {
  const times = timesOf(series);
  const marks = marksOf(series);
  const perSecond = (values) => values.map((value) => (value === null ? null : value / series.step_s));
  const attempts = ["delivered", "retry", "dead"].map((by) => ({ name: by, tone: TONES[by], area: true, values: perSecond(valuesOf(series, "attempts", by) ?? []) }));
  const waits = ["p50", "p95", "p99"].map((by) => ({ name: by, tone: TONES[by], values: valuesOf(series, "delivery_ms", by) ?? [] }));
  for (const line of waits) line.now = millisText(line.values.findLast((value) => value !== null));
  return html`<div class="cols2 even"><${Chart} title="Attempts a second, by outcome" times=${times} lines=${attempts} marks=${marks} stacked say=${rate} />
    <${Chart} title="End to end" times=${times} lines=${waits} marks=${marks} say=${millisText} /></div>`;
}
