/**
 * The stages of a produce as a picture: from the first batch of a turn to its acknowledgement, with the times of the
 * last seconds; and how its flushes and chunks are spread.
 */

import { h, replace, svg } from "../core/dom.js";
import { bytes, rate } from "../core/format.js";
import { badge, text } from "../core/parts.js";
import { barChart } from "./nodes_bars.js";
import { seconds } from "./nodes_this.js";

/** @typedef {{name: string, p50_s: number | null, p99_s: number | null}} Stage */
/**
 * @typedef {{name: string, flushed_bytes_per_s: number, flushes_per_s: number, chunks_per_s: number, unreleased_bytes: number,
 *   is_congested: boolean, stages: Stage[], fsync: [number | null, number][], chunk_bytes: [number | null, number][]}} Group
 */

const ABOUT = /** @type {Record<string, string>} */ ({
  turn: "batches of a turn are gathered",
  queue: "waits for the flush before",
  write: "handed to the system",
  fsync: "the disk makes it safe",
  replicate: "replicas hold it, too",
  release: "acknowledgements go out",
});
const GAP_PX = 22;
const BOX_PX = 92;
const NARROW_PX = 620;
const ROW_PX = 60; // of a narrow window, where stages are below each other
const ROW_GAP_PX = 16;
const GROUPS_MAX = 4;

/** @param {AbortSignal} signal */
export function stagesPanel(signal) {
  const places = h("div", { class: "view" });
  const over = h("p", { class: "quiet" });
  const element = h("section", { class: "panel", "aria-labelledby": "stages" }, h("h2", { id: "stages" }, "Where the time of a produce goes"), over, places);
  /** @type {Group[]} */
  let groups = [];
  const draw = () => replace(places, ...(groups.length ? groups.map((group) => drawn(group, places.clientWidth)) : [h("p", { class: "empty" }, "Nothing was written in the last seconds. Times come with the next records.")]));
  const resized = new ResizeObserver(draw);
  resized.observe(element);
  signal.addEventListener("abort", () => resized.disconnect(), { once: true });
  return {
    element,
    /**
     * @param {Group[]} told
     * @param {number | null} over_ms
     */
    show(told, over_ms) {
      groups = told.filter((group) => group.stages.some((stage) => stage.p50_s !== null)).slice(0, GROUPS_MAX);
      const length = over_ms === null ? "The" : `Of the last ${Math.round(over_ms / 1_000)} seconds: the`;
      replace(over, `${length} median of each stage, and the time that 99 of 100 stay within.`);
      draw();
    },
  };
}

/**
 * @param {Group} group
 * @param {number} width_px
 */
function drawn(group, width_px) {
  const steps = group.stages.filter((stage) => stage.name !== "safe");
  const safe = group.stages.find((stage) => stage.name === "safe");
  const heading = h(
    "h3",
    null,
    "Partition group ",
    h("span", { class: "mono" }, ...text(group.name)),
    " ",
    group.is_congested ? badge("behind: producers wait", "warn") : null,
  );
  const pace = `${bytes(Math.round(group.flushed_bytes_per_s))}/s in ${rate(group.flushes_per_s)} flushes`;
  const whole = h("p", { class: "stage-whole" }, "Safe on disk after ", h("strong", null, seconds(safe?.p50_s ?? null)), `, 99 of 100 within `, h("strong", null, seconds(safe?.p99_s ?? null)), h("span", { class: "quiet" }, ` · ${pace}`));
  return h(
    "article",
    { class: "stage-group" },
    heading,
    whole,
    picture(group.name, steps, width_px),
    h("div", { class: "panels" }, barChart("Time of an fsync", group.fsync, seconds), barChart("Size of a chunk", group.chunk_bytes, bytes)),
  );
}

/**
 * @param {string} name
 * @param {Stage[]} steps
 * @param {number} width_px
 */
function picture(name, steps, width_px) {
  const is_narrow = width_px < NARROW_PX;
  const box_px = is_narrow ? Math.max(width_px, 1) : Math.max((width_px - GAP_PX * (steps.length - 1)) / steps.length, 1);
  const height_px = is_narrow ? steps.length * (ROW_PX + ROW_GAP_PX) - ROW_GAP_PX : BOX_PX;
  const most = Math.max(...steps.map((stage) => stage.p99_s ?? 0), 1e-9);
  const told = steps.map((stage) => `${stage.name}: ${seconds(stage.p50_s)}, 99 of 100 within ${seconds(stage.p99_s)}`).join("; ");
  const image = svg("svg", { class: "stages", role: "img", width: Math.max(width_px, 1), height: height_px, "aria-label": `Stages of a produce in ${name}. ${told}.` });
  for (const [index, stage] of steps.entries()) {
    const x = is_narrow ? 0 : index * (box_px + GAP_PX);
    const y = is_narrow ? index * (ROW_PX + ROW_GAP_PX) : 0;
    image.append(box(stage, x, y, box_px, is_narrow ? ROW_PX : BOX_PX, (stage.p99_s ?? 0) / most, is_narrow));
    if (index === steps.length - 1) continue;
    const arrow = is_narrow ? `M24 ${y + ROW_PX + 2}v11m-4 -4l4 4l4 -4` : `M${x + box_px + 4} ${BOX_PX / 2}h${GAP_PX - 9}m-5 -5l5 5l-5 5`;
    image.append(svg("path", { class: "stage-arrow", d: arrow }));
  }
  return image;
}

/**
 * @param {Stage} stage
 * @param {number} x
 * @param {number} y
 * @param {number} width_px
 * @param {number} height_px
 * @param {number} share of the slowest stage
 * @param {boolean} is_narrow
 */
function box(stage, x, y, width_px, height_px, share, is_narrow) {
  const inner_px = Math.max(width_px - 20, 0);
  const about = svg("title", null, `${stage.name}: ${ABOUT[stage.name] ?? ""}`);
  const frame = svg("rect", { class: "stage-box", x: x + 0.5, y: y + 0.5, width: width_px - 1, height: height_px - 1, rx: 7 });
  const ground = svg("rect", { class: "stage-ground", x: x + 10, y: y + height_px - 12, width: inner_px, height: 4, rx: 2 });
  const filled = svg("rect", { class: share >= 0.999 ? "stage-bar stage-bar-most" : "stage-bar", x: x + 10, y: y + height_px - 12, width: Math.max(inner_px * share, 2), height: 4, rx: 2 });
  const words = is_narrow
    ? [
        svg("text", { class: "stage-name", x: x + 10, y: y + 22 }, stage.name),
        svg("text", { class: "stage-median", x: x + width_px - 10, y: y + 23, "text-anchor": "end" }, seconds(stage.p50_s)),
        svg("text", { class: "stage-most", x: x + 10, y: y + 41 }, `99 %: ${seconds(stage.p99_s)}`),
      ]
    : [
        svg("text", { class: "stage-name", x: x + 10, y: y + 21 }, stage.name),
        svg("text", { class: "stage-median", x: x + 10, y: y + 46 }, seconds(stage.p50_s)),
        svg("text", { class: "stage-most", x: x + 10, y: y + 67 }, `99 %: ${seconds(stage.p99_s)}`),
      ];
  return svg("g", null, about, frame, ...words, ground, filled);
}
