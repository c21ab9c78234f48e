/** Lag of a group over time, as a chart that goes on while the page is open. */

import { h, replace } from "../core/dom.js";
import { lineChart } from "../core/chart.js";
import { events } from "../core/live.js";
import { note } from "../core/parts.js";
import { link } from "../core/paths.js";

/** @typedef {{consumed_per_s: number | null, produced_per_s: number | null, catch_up_s: number | null}} Pace */

const SAMPLES_MAX = 450;

/**
 * @param {{name: string, type: string}} group
 * @param {AbortSignal} signal
 * @param {(pace: Pace) => void} onPace
 * @returns {HTMLElement}
 */
export function lagPanel(group, signal, onPace) {
  const chart = lineChart({ title: "Lag, records", height_px: 180, signal });
  const problem = h("div", { role: "status" });
  /** @type {[number, number][]} */
  let points = [];
  const told = (/** @type {Pace & {samples: {time_ms: number, lag: number}[]}} */ data) => {
    const last = points.at(-1)?.[0] ?? -1;
    // A stream that was opened again tells the whole history once more.
    const fresh = data.samples.filter((sample) => sample.time_ms > last);
    points = [...points, ...fresh.map((sample) => /** @type {[number, number]} */ ([sample.time_ms, sample.lag]))].slice(-SAMPLES_MAX);
    chart.update([{ name: "Lag", points }]);
    replace(problem);
    onPace(data);
  };
  const failed = (/** @type {{message: string}} */ data) => replace(problem, note("warn", data.message));
  // The node tells the lag of a share group, the client library that of all others.
  const path = link`/api/groups/${group.name}/lag`;
  events(group.type === "share" ? `${path}?type=share` : path, { lag: told, problem: failed }, signal);
  return h("section", { class: "panel" }, chart.element, problem);
}
