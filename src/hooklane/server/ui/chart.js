// Charts over time (uPlot), each with its figures as a table, and the small lines in the tiles.

import { files } from "./api.js";
import { html, signal, useEffect, useRef, useState } from "./kit.js";
import { Icon } from "./parts.js";
import { atTime, number } from "./words.js";

const HEIGHT = 220;
/** Between two times of the axis, which are written without seconds. */
const MINUTES = [1, 2, 5, 10, 20, 30, 60, 120, 180, 360, 720, 1440, 2880];
const DAY_S = 86_400;
let library = null;

/** uPlot and its style, fetched when the first chart is drawn. */
function plotter() {
  library ??= (async () => {
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = `${files}/vendor/uplot.css`;
    document.head.append(style);
    return (await import("./vendor/uplot.js")).default;
  })();
  return library;
}

/** Changes when the page turns light or dark: a canvas has to be painted anew. */
const paint = signal(0);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (paint.value += 1));
new MutationObserver(() => (paint.value += 1)).observe(document.documentElement, { attributeFilter: ["data-theme"] });

/** The colour of a class (`good`, `retry`, `ink-3`, …) as the page draws it now. */
function colour(name) {
  const probe = document.createElement("i");
  probe.className = `paint-${name}`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** 14:02, and 11-18 where a day begins or only days are told apart. */
export function timeTexts(_, splits) {
  const said = splits.map((at) => /(\d\d-\d\d) (\d\d:\d\d)/.exec(atTime(at * 1000, 0)));
  const isOfDays = splits.length > 1 && splits[1] - splits[0] >= DAY_S;
  return said.map(([, day, time]) => (isOfDays || time === "00:00" ? day : time));
}

/** A value between two that are not known is a point: no line goes through it. */
function lonely(plot, line) {
  const values = plot.data[line];
  const isKnown = (at) => values[at] !== null && values[at] !== undefined;
  return values.flatMap((_, at) => (isKnown(at) && !isKnown(at - 1) && !isKnown(at + 1) ? [at] : []));
}

/** How wide a picture in *element* may be: its own width holds its padding too. */
function roomIn(element) {
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  return element.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
}

function marksOf(marks, ink) {
  return (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = ink;
    ctx.textAlign = "left";
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
    let free = -Infinity;
    for (const mark of marks) {
      const x = Math.round(plot.valToPos(Date.parse(mark.at) / 1000, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const width = ctx.measureText(mark.label).width;
      if (x < free || x + width > bbox.left + bbox.width) continue;
      ctx.fillText(mark.label, x + 4 * devicePixelRatio, bbox.top + 11 * devicePixelRatio);
      free = x + width + 12 * devicePixelRatio;
    }
    ctx.restore();
  };
}

/**
 * *lines* are {name, tone, values, area}; *times* in seconds. With *stacked* each stands on the one before. *say* puts a
 * value into words.
 */
export function Chart({ title, times, lines, marks = [], stacked, say = number, sync = "all" }) {
  const box = useRef();
  const plot = useRef();
  const [asTable, setAsTable] = useState(false);
  const turn = paint.value;
  const data = [times, ...drawn(lines, stacked).map((line) => line.values)];
  useEffect(() => {
    if (asTable) return undefined;
    let gone = false;
    let watch;
    plotter().then((Plot) => {
      if (gone || !box.current) return;
      const faint = colour("ink-3");
      const grid = { stroke: colour("line"), width: 1 };
      const axis = { stroke: faint, grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
      plot.current = new Plot(
        {
          width: roomIn(box.current),
          height: HEIGHT,
          padding: [null, 20, null, null], // room for half of the last label
          legend: { show: false },
          cursor: { sync: { key: sync }, points: { size: 6 }, y: false },
          scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.15, 1)] } },
          axes: [{ ...axis, values: timeTexts, incrs: MINUTES.map((many) => many * 60), grid: { show: false }, space: 70, size: 30 }, { ...axis, size: 52, space: 44, values: (_, splits) => splits.map((value) => (value ? say(value) : "0")) }],
          series: [{}, ...drawn(lines, stacked).map((line) => ({ label: line.name, stroke: colour(line.tone), width: 2, fill: line.area ? colour(`soft-${line.tone}`) : undefined, points: { show: false, size: 5, filter: lonely }, spanGaps: false }))],
          hooks: { draw: [marksOf(marks, faint)] },
        },
        data,
        box.current,
      );
      watch = new ResizeObserver(() => box.current && plot.current?.setSize({ width: roomIn(box.current), height: HEIGHT }));
      watch.observe(box.current);
    });
    return () => {
      gone = true;
      watch?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [turn, asTable, lines.length, JSON.stringify(marks)]);
  useEffect(() => plot.current?.setData(data), [times.at(-1), times.length, JSON.stringify(lines.map((line) => line.values.at(-1)))]);
  return html`<section class="card chart-card"><div class="title"><h2>${title}</h2><span class="legend">${lines.map((line) => html`<span><i class=${`i-${line.tone}`}></i>${line.name}${line.now ? ` ${line.now}` : ""}</span>`)}</span>
      <button class="btn small quiet" type="button" title="As a table" aria-label=${`${title} as a table`} aria-pressed=${String(asTable)} onClick=${() => setAsTable(!asTable)}><${Icon} name=${asTable ? "n-overview" : "table"} /></button></div>
    ${asTable ? html`<${Figures} title=${title} times=${times} lines=${lines} say=${say} />` : html`<div class="plot" ref=${box} role="img" aria-label=${`${title}: ${lines.map((line) => `${line.name} ${say(line.values.findLast((value) => value !== null) ?? null)}`).join(", ")} now`}></div>`}</section>`;
}

/** Stacked lines are drawn as sums, the largest first, so that each covers what is not its own. */
function drawn(lines, stacked) {
  if (!stacked) return lines;
  const sums = [];
  lines.forEach((line, n) => sums.push({ ...line, values: line.values.map((value, at) => (value ?? 0) + (n ? sums[n - 1].values[at] : 0)) }));
  return sums.reverse();
}

const Figures = ({ title, times, lines, say }) => html`<div class="tbl-wrap figures" tabindex="0" role="region" aria-label=${`${title}, as a table`}><table class="tbl"><thead><tr><th>Time</th>${lines.map((line) => html`<th class="r">${line.name}</th>`)}</tr></thead>
  <tbody>${times.map((at, n) => [at, n]).reverse().slice(0, 120).map(([at, n]) => html`<tr><td class="num">${atTime(at * 1000)}</td>${lines.map((line) => html`<td class="r">${say(line.values[n])}</td>`)}</tr>`)}</tbody></table></div>`;

/** A small line without axes; nothing where nothing was measured. */
export function Spark({ values, tone }) {
  const known = (values ?? []).map((value, at) => [at, value]).filter(([, value]) => value !== null && value !== undefined);
  if (known.length < 2 || known.every(([, value]) => value === 0)) return html`<svg class="spark" viewBox="0 0 96 30" aria-hidden="true"></svg>`;
  const most = Math.max(...known.map(([, value]) => value));
  const least = Math.min(...known.map(([, value]) => value));
  const x = (at) => 2 + (at / (values.length - 1)) * 90;
  const y = (value) => (most === least ? (most ? 15 : 26) : 26 - ((value - least) / (most - least)) * 22);
  const [lastAt, last] = known.at(-1);
  return html`<svg class="spark" viewBox="0 0 96 30" aria-hidden="true"><polyline class=${`s-${tone}`} stroke-width="1.5" stroke-linejoin="round" points=${known.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ")} /><circle cx=${x(lastAt)} cy=${y(last)} r="2.2" class=${`f-${tone}`} /></svg>`;
}
