/**
 * A line chart of figures over time: own SVG, axes with round numbers, a reading at the pointer, and the same as a table.
 *
 * Strategy: `scales.js` decides ticks; this draws. Series differ by colour and dashes. A gap (null) breaks its line.
 */

import { h, replace, svg } from "./dom.js";
import { short, timeOfDay } from "./format.js";
import { nearest, ticks, timeTicks } from "./scales.js";

/** @typedef {{name: string, points: [number, number | null][]}} Series times in ms since 1970, rising */
/** @typedef {{title: string, format?: (value: number) => string, height_px?: number, is_bytes?: boolean, signal: AbortSignal,
 *   series?: Series[]}} ChartOptions */

const LEFT_PX = 68;
const RIGHT_PX = 12;
const TOP_PX = 10;
const BOTTOM_PX = 24;
const SERIES_MAX = 6;
const TABLE_ROWS_MAX = 20;

/**
 * @param {ChartOptions} options
 * @returns {{element: HTMLElement, update: (series: Series[]) => void}}
 */
export function lineChart(options) {
  const height_px = options.height_px ?? 220;
  const format = options.format ?? short;
  const picture = svg("svg", { class: "chart-lines", role: "img", height: height_px });
  const reading = h("p", { class: "chart-reading", "aria-hidden": "true" });
  const legend = h("ul", { class: "chart-legend" });
  const rows = h("div", { class: "chart-table" });
  const details = h("details", null, h("summary", null, "Show as a table"), rows);
  const element = h(
    "figure",
    { class: "chart" },
    h("figcaption", null, h("span", { class: "chart-title" }, options.title), reading),
    picture,
    legend,
    details,
  );
  /** @type {Series[]} */
  let series = [];
  /** @type {ReturnType<typeof layout> | null} */
  let place = null;

  const draw = () => {
    const width_px = element.clientWidth;
    if (!width_px) return;
    place = layout(series, width_px, height_px, options.is_bytes ?? false);
    picture.setAttribute("viewBox", `0 0 ${width_px} ${height_px}`);
    picture.setAttribute("aria-label", summary(options.title, series, format));
    replace(picture, ...axes(place, format, width_px, height_px), ...lines(place, series));
    replace(legend, ...(series.length > 1 ? series.map(legendOf) : []));
    if (details.open) replace(rows, tableOf(options.title, series, format));
  };
  const point = (/** @type {PointerEvent} */ event) => {
    picture.querySelector(".chart-pointer")?.remove();
    if (!place || !series[0]?.points.length) return;
    const at = nearest(series[0].points.map(([time]) => time), place.timeAt(event.clientX - picture.getBoundingClientRect().left));
    const x = place.x(at);
    picture.append(svg("line", { class: "chart-pointer", x1: x, x2: x, y1: TOP_PX, y2: height_px - BOTTOM_PX }));
    replace(reading, `${timeOfDay(at)}  ${series.map((one) => valueAt(one, at, series.length > 1, format)).join("   ")}`);
  };
  picture.addEventListener("pointermove", point);
  picture.addEventListener("pointerleave", () => {
    picture.querySelector(".chart-pointer")?.remove();
    replace(reading);
  });
  details.addEventListener("toggle", draw);
  const resized = new ResizeObserver(draw);
  resized.observe(element);
  options.signal.addEventListener("abort", () => resized.disconnect(), { once: true });
  const update = (/** @type {Series[]} */ given) => {
    series = given.slice(0, SERIES_MAX);
    draw();
  };
  update(options.series ?? []);
  return { element, update };
}

/**
 * @param {Series[]} series
 * @param {number} width_px
 * @param {number} height_px
 * @param {boolean} is_bytes ticks are round in KiB, MiB ...
 */
function layout(series, width_px, height_px, is_bytes) {
  const times = series.flatMap((one) => one.points.map(([time]) => time));
  const values = series.flatMap((one) => one.points.map(([, value]) => value ?? 0));
  const from = times.length ? times.reduce((a, b) => Math.min(a, b)) : 0;
  const to = times.length ? times.reduce((a, b) => Math.max(a, b)) : 1;
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  const unit = is_bytes && most > 0 ? 1024 ** Math.floor(Math.log(most) / Math.log(1024) + 1e-9) : 1;
  const marks = ticks(most / unit, 4).map((mark) => mark * unit);
  const top = marks[marks.length - 1] ?? 1;
  const span_ms = Math.max(to - from, 1);
  const inner_px = Math.max(width_px - LEFT_PX - RIGHT_PX, 1);
  const x = (/** @type {number} */ time) => LEFT_PX + ((time - from) / span_ms) * inner_px;
  const y = (/** @type {number} */ value) => height_px - BOTTOM_PX - (value / top) * (height_px - TOP_PX - BOTTOM_PX);
  const timeAt = (/** @type {number} */ at_px) => from + ((at_px - LEFT_PX) / inner_px) * span_ms;
  return { x, y, timeAt, marks, moments: times.length ? timeTicks(from, to, Math.max(2, Math.floor(inner_px / 110))) : [] };
}

/**
 * @param {ReturnType<typeof layout>} place
 * @param {(value: number) => string} format
 * @param {number} width_px
 * @param {number} height_px
 */
function axes(place, format, width_px, height_px) {
  const levels = place.marks.flatMap((value) => [
    svg("line", { class: value === 0 ? "chart-axis" : "chart-grid", x1: LEFT_PX, x2: width_px - RIGHT_PX, y1: place.y(value), y2: place.y(value) }),
    svg("text", { x: LEFT_PX - 8, y: place.y(value) + 4, "text-anchor": "end" }, format(value)),
  ]);
  const moments = place.moments.map((time) => {
    const x = Math.max(LEFT_PX + 4, Math.min(place.x(time), width_px - RIGHT_PX - 26));
    return svg("text", { x, y: height_px - 6, "text-anchor": "middle" }, timeOfDay(time));
  });
  return [...levels, ...moments];
}

/**
 * @param {ReturnType<typeof layout>} place
 * @param {Series[]} series
 */
function lines(place, series) {
  return series.map((one, index) => {
    let is_down = false;
    const steps = one.points.map(([time, value]) => {
      if (value === null) {
        is_down = false;
        return "";
      }
      const at = `${place.x(time).toFixed(1)} ${place.y(value).toFixed(1)}`;
      // A line of no length has round ends: a figure between two gaps is a dot.
      const step = is_down ? `L${at}` : `M${at}h0`;
      is_down = true;
      return step;
    });
    return svg("path", { class: `chart-line series-${index + 1}`, d: steps.join("") || "M0 0" });
  });
}

/**
 * @param {Series} one
 * @param {number} index
 */
function legendOf(one, index) {
  const sample = svg("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" }, svg("path", { class: `chart-line series-${index + 1}`, d: "M1 4h20" }));
  return h("li", null, sample, one.name);
}

/**
 * @param {Series} one
 * @param {number} time
 * @param {boolean} is_named
 * @param {(value: number) => string} format
 */
function valueAt(one, time, is_named, format) {
  const found = one.points.find(([at]) => at === time)?.[1];
  const told = found === null || found === undefined ? "–" : format(found);
  return is_named ? `${one.name} ${told}` : told;
}

/**
 * @param {string} title
 * @param {Series[]} series
 * @param {(value: number) => string} format
 */
function summary(title, series, format) {
  const last = series.map((one) => `${one.name}: ${format(one.points.at(-1)?.[1] ?? 0)} at the end`);
  return last.length ? `${title}. ${last.join("; ")}.` : `${title}. No figures yet.`;
}

/**
 * @param {string} title
 * @param {Series[]} series
 * @param {(value: number) => string} format
 */
function tableOf(title, series, format) {
  const times = (series[0]?.points ?? []).map(([time]) => time).slice(-TABLE_ROWS_MAX).reverse();
  const head = h("tr", null, h("th", { scope: "col" }, "Time"), ...series.map((one) => h("th", { scope: "col", class: "number" }, one.name)));
  const body = times.map((time) =>
    h("tr", null, h("td", { class: "mono" }, timeOfDay(time)), ...series.map((one) => h("td", { class: "number" }, valueAt(one, time, false, format)))),
  );
  return h("table", null, h("caption", { class: "only-read" }, title), h("thead", null, head), h("tbody", null, ...body));
}
