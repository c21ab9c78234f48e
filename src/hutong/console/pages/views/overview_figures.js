/** The live figures of the overview: cards, two charts, the groups with most lag and the busiest topics. */

import { lineChart } from "../core/chart.js";
import { h, replace } from "../core/dom.js";
import { bytes, duration, number, percent, rate, short } from "../core/format.js";
import { text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { table } from "../core/table.js";

/** @typedef {[number, number | null, number | null, number | null]} Point time, records in, bytes in, bytes out a second */
/** @typedef {{name: string, lag: number, lag_ms: number | null, read_per_s: number | null, members: number | null}} Group */
/** @typedef {{name: string, records_in_per_s: number, bytes_in_per_s: number, bytes_out_per_s: number}} Topic */

const POINTS_MAX = 300;
const LATE_MS = 300_000;
const FREE_SHARE_MIN = 0.1;

/** @param {AbortSignal} signal */
export function liveFigures(signal) {
  const figures = liveCards(["Records in", "Bytes in", "Bytes out", "Safe on disk", "Connections", "Processor", "Memory", "Disk free"]);
  const records = lineChart({ title: "Records in, a second", format: short, height_px: 190, signal });
  const sizes = lineChart({ title: "Bytes a second", format: bytes, is_bytes: true, height_px: 190, signal });
  const groups = groupTable(signal);
  const topics = topicTable(signal);
  const element = h(
    "div",
    { class: "view" },
    figures.element,
    h("div", { class: "panels" }, h("section", { class: "panel" }, records.element), h("section", { class: "panel" }, sizes.element)),
    h(
      "div",
      { class: "panels panels-even" },
      h("section", null, h("h2", null, h("a", { href: "/groups" }, "Groups with most lag")), groups.element),
      h("section", null, h("h2", null, h("a", { href: "/topics" }, "Busiest topics")), topics.element),
    ),
  );
  /** @type {Point[]} */
  let points = [];
  const draw = () => {
    records.update([{ name: "Records in", points: points.map(([at, value]) => [at, value]) }]);
    sizes.update([
      { name: "In", points: points.map(([at, , value]) => [at, value]) },
      { name: "Out", points: points.map(([at, , , value]) => [at, value]) },
    ]);
  };
  return {
    element,
    /** @param {{points: Point[]}} told those of the time before this page was opened */
    begin(told) {
      points = told.points;
      draw();
    },
    /** @param {any} told */
    show(told) {
      figures.show(values(told.figures));
      groups.update(told.groups);
      topics.update(told.topics);
      if (told.point && told.point[0] !== points.at(-1)?.[0]) points = [...points, told.point].slice(-POINTS_MAX);
      draw();
    },
  };
}

/**
 * Cards whose values change in place.
 * @param {string[]} labels
 */
function liveCards(labels) {
  const made = labels.map((label) => {
    const value = h("dd");
    const about = h("dd", { class: "card-note" });
    return { value, about, element: h("div", { class: "card" }, h("dt", null, label), value, about) };
  });
  return {
    element: h("dl", { class: "cards cards-live" }, ...made.map((one) => one.element)),
    /** @param {{value: string, note?: string, tone?: string}[]} given */
    show(given) {
      for (const [index, { value, note = "", tone }] of given.entries()) {
        const one = made[index];
        if (!one) continue;
        replace(one.value, value);
        one.value.className = tone ? `tone-${tone}` : "";
        replace(one.about, note);
      }
    },
  };
}

/** @param {Record<string, number | null>} told */
function values(told) {
  const { volume_free_bytes: free, volume_size_bytes: size, processors_used: used, safe_p99_s: safe } = told;
  const share = free !== null && free !== undefined && size ? free / size : null;
  return [
    { value: rate(told["records_in_per_s"]), note: `${short(told["requests_per_s"])} requests/s` },
    { value: perSecond(told["bytes_in_per_s"]), note: `${number(told["topics"])} topics` },
    { value: perSecond(told["bytes_out_per_s"]), note: `${number(told["groups"])} groups` },
    { value: safe === null || safe === undefined ? "–" : duration(safe * 1_000), note: "99 of 100 acks=all" },
    { value: number(told["connections"]), note: told["up_ms"] ? `up ${duration(told["up_ms"])}` : "" },
    { value: percent(used), note: "of one processor" },
    { value: bytes(told["memory_bytes"]), note: "in RAM" },
    { value: bytes(free), note: share === null ? "" : `of ${bytes(size)}`, tone: share !== null && share < FREE_SHARE_MIN ? "warn" : undefined },
  ];
}

/** @param {number | null | undefined} value */
function perSecond(value) {
  return value === null || value === undefined ? "–" : `${bytes(Math.round(value))}/s`;
}

/** @param {AbortSignal} signal */
function groupTable(signal) {
  /** @type {import("../core/table.js").Column<Group>[]} */
  const columns = [
    { title: "Group", is_mono: true, cell: (one) => h("a", { href: link`/groups/${one.name}` }, ...text(one.name)) },
    { title: "Lag", is_number: true, cell: (one) => number(one.lag) },
    { title: "Behind", is_number: true, cell: behind },
    { title: "Commits", is_number: true, cell: (one) => rate(one.read_per_s), hint: "Records committed a second" },
  ];
  const empty = () => h("p", { class: "empty" }, "No group has committed an offset yet.");
  return table({ caption: "Groups with most lag", columns, key: (one) => one.name, signal, empty });
}

/** @param {Group} one */
function behind(one) {
  const told = one.lag ? duration(one.lag_ms) : "–";
  return one.lag_ms !== null && one.lag_ms > LATE_MS ? h("span", { class: "tone-warn" }, told) : told;
}

/** @param {AbortSignal} signal */
function topicTable(signal) {
  /** @type {import("../core/table.js").Column<Topic>[]} */
  const columns = [
    { title: "Topic", is_mono: true, cell: (one) => h("a", { href: link`/topics/${one.name}` }, ...text(one.name)) },
    { title: "Records in", is_number: true, cell: (one) => rate(one.records_in_per_s) },
    { title: "Bytes in", is_number: true, cell: (one) => perSecond(one.bytes_in_per_s) },
    { title: "Bytes out", is_number: true, cell: (one) => perSecond(one.bytes_out_per_s) },
  ];
  const empty = () => h("p", { class: "empty" }, "Nothing is written or read at the moment.");
  return table({ caption: "Busiest topics", columns, key: (one) => one.name, signal, empty });
}
