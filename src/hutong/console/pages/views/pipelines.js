/** Pipelines on Spark: what runs, how fast, how far behind, and the report of each newest run. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { counted, duration, number, rate } from "../core/format.js";
import { repeat } from "../core/live.js";
import { badge, emptyState, errorState, loading, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { table } from "../core/table.js";

/**
 * @typedef {{name: string, state: string, since: string | null, query: string | null, batch: number | null,
 *   rows_per_second: number | null, batch_ms: number | null, lag: Record<string, number> | null, attempt: number | null,
 *   error: string | null}} Row
 */

const AGAIN_MS = 5_000;
/** @type {Record<string, "good" | "bad" | "accent">} */
const TONES = { running: "accent", finished: "good", stopped: "good", failed: "bad", died: "bad" };

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Pipelines",
  async open(container, _params, _query, signal) {
    const body = h("div", { class: "view" }, loading("pipelines"));
    replace(container, pageHead({ title: "Pipelines", about: "Jobs on Spark, by what their last runs have left." }), body);
    const list = pipelineTable(signal);
    const problem = h("div");
    const ask = async () => {
      const told = await api.get("/api/pipelines", { signal });
      list.update(told.pipelines);
      return told;
    };
    const first = await ask();
    if (!first.has_folder) {
      const how = ["Name the folder: ", h("code", null, "--set console.pipelines=.hutong/pipelines"), "."];
      replace(body, emptyState("This console shows no pipelines.", how));
      return;
    }
    replace(body, problem, list.element);
    repeat(() => ask().catch((error) => signal.aborted || replace(problem, errorState(error))), AGAIN_MS, signal);
  },
};

/** @param {AbortSignal} signal */
function pipelineTable(signal) {
  /** @type {import("../core/table.js").Column<Row>[]} */
  const columns = [
    { title: "Pipeline", is_mono: true, sort: (row) => row.name, cell: (row) => text(row.name) },
    { title: "State", sort: (row) => row.state, cell: stateOf },
    { title: "Since", sort: (row) => row.since ?? "", cell: (row) => text(row.since ?? "–") },
    { title: "Query", is_mono: true, sort: (row) => row.query ?? "", cell: (row) => text(row.query ?? "–") },
    { title: "Batch", is_number: true, sort: (row) => row.batch, cell: (row) => number(row.batch) },
    { title: "Rows", is_number: true, sort: (row) => row.rows_per_second, cell: (row) => rate(row.rows_per_second) },
    { title: "Batch takes", is_number: true, sort: (row) => row.batch_ms, cell: (row) => duration(row.batch_ms) },
    { title: "Lag", is_number: true, sort: lagOf, cell: shownLag, hint: "Records that waited when the last batch was planned" },
    { title: "Report", is_action: true, cell: reportOf },
  ];
  return table({
    caption: "Pipelines",
    columns,
    signal,
    key: (row) => `${row.name} ${row.query}`,
    search: (row) => `${row.name} ${row.query ?? ""} ${row.state}`,
    filter_label: "Filter pipelines",
    noun: "query",
    nouns: "queries",
    sort_by: 0,
    empty: () => emptyState("No pipeline has run here.", ["Start one with ", h("code", null, "hutong pipeline run"), "."]),
  });
}

/** @param {Row} row */
function stateOf(row) {
  const state = badge(row.state, TONES[row.state] ?? "plain");
  const again = row.attempt && row.attempt > 1 ? h("span", { class: "quiet" }, ` attempt ${number(row.attempt)}`) : null;
  return row.error ? [state, again, h("div", { class: "tone-bad" }, ...text(row.error.slice(0, 300)))] : [state, again];
}

/** @param {Row} row */
function lagOf(row) {
  return row.lag === null ? null : Object.values(row.lag).reduce((sum, one) => sum + one, 0);
}

/** @param {Row} row */
function shownLag(row) {
  const topics = Object.keys(row.lag ?? {}).length;
  return topics > 1 ? `${number(lagOf(row))} of ${counted(topics, "topic")}` : number(lagOf(row));
}

/** @param {Row} row */
function reportOf(row) {
  if (row.batch === null) return "–";
  // A page of its own: it has no scripts, and may not be framed.
  return h("a", { href: link`/api/pipelines/${row.name}/report`, target: "_blank", rel: "noopener" }, `Report of ${row.name}`);
}
