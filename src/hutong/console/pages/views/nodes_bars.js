/** A histogram: a bar for each bucket by its upper bound, with the share of all values. */

import { h } from "../core/dom.js";
import { percent } from "../core/format.js";

/**
 * @param {string} title
 * @param {[number | null, number][]} bars upper bounds (null: above all bounds) and counts
 * @param {(bound: number) => string} format
 */
export function barChart(title, bars, format) {
  const total = bars.reduce((sum, [, count]) => sum + count, 0);
  const most = bars.reduce((max, [, count]) => Math.max(max, count), 0);
  const rows = bars.map(([bound, count], index) => {
    const label = bound === null ? `over ${format(bars[index - 1]?.[0] ?? 0)}` : `≤ ${format(bound)}`;
    const filled = h("span", { class: "bar-filled", style: { width: `${most ? ((count / most) * 100).toFixed(1) : 0}%` } });
    return h("div", { class: "spread-row" }, h("dt", null, label), h("dd", { class: "bar", "aria-hidden": "true" }, filled), h("dd", { class: "spread-share" }, percent(total ? count / total : 0)));
  });
  return h("section", { class: "spread" }, h("h4", null, title), rows.length ? h("dl", null, ...rows) : h("p", { class: "quiet" }, "None in the last seconds."));
}
