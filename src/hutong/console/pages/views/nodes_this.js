/** The node that serves this console, live: the stages of a produce, its disk, memory, connections and requests. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { bytes, duration, number, percent, rate } from "../core/format.js";
import { events } from "../core/live.js";
import { badge, emptyState, facts, loading, moment, pageHead, text } from "../core/parts.js";
import { session } from "../core/session.js";
import { table } from "../core/table.js";
import { nodesTabs } from "./nodes.js";
import { stagesPanel } from "./nodes_stages.js";

/** @typedef {{name: string, per_s: number, p50_s: number | null, p99_s: number | null, failed_per_s: number}} Requests */
/** @typedef {{name: string, open: number}} Connections */

/** @type {import("../core/router.js").View} */
export const view = {
  title: "This node",
  async open(container, _params, _query, signal) {
    const state = h("p", { class: "quiet", role: "status" }, "Connecting …");
    const body = h("div", { class: "view" }, loading("this node"));
    replace(container, pageHead({ title: "This node", actions: [state] }), nodesTabs("/nodes/this"), body);
    if (!session().has_node) {
      replace(body, emptyState("This console looks at the cluster from outside.", "A Hutong node shows itself in its own console: hutong serve --console HOST:PORT."));
      return;
    }
    const own = await api.get("/api/nodes/own", { signal });
    const live = livePanels(signal);
    replace(body, live.element, identityPanel(own));
    const shown = { connecting: "Connecting …", live: "Live", waiting: "The console does not answer. Trying again …" };
    events("/api/nodes/own/events", { figures: live.show }, signal, (now) => replace(state, now === "live" ? badge("live", "good") : shown[now]));
  },
};

/** @param {AbortSignal} signal */
function livePanels(signal) {
  const stages = stagesPanel(signal);
  const memory = h("div");
  const loop = h("div");
  const connections = connectionTable(signal);
  const requests = requestTable(signal);
  const element = h(
    "div",
    { class: "view" },
    stages.element,
    h(
      "div",
      { class: "panels" },
      h("section", { class: "panel panel-top" }, h("h2", null, "Memory"), memory),
      h("section", { class: "panel panel-top" }, h("h2", null, "Event loop"), loop),
    ),
    h(
      "div",
      { class: "panels panels-even panels-first" },
      h("section", null, h("h2", null, "Requests of the last seconds"), requests.element),
      h("section", null, h("h2", null, "Connections"), connections.element),
    ),
  );
  const show = (/** @type {any} */ told) => {
    stages.show(told.groups, told.over_ms);
    replace(memory, memoryBars(told.memory));
    replace(loop, loopFacts(told));
    requests.update(told.requests);
    connections.update(told.connections);
  };
  return { element, show };
}

/** @param {Record<string, number | null>} told */
function memoryBars(told) {
  const whole = told["resident_bytes"] ?? 0;
  const rows = [
    ["Resident", whole, whole, "of the process, in RAM"],
    ["Newest records", told["hot_bytes"] ?? 0, whole, "readers find them in memory"],
    ["Not yet safe", told["unreleased_bytes"] ?? 0, whole, "the disk or a replica lacks them"],
    ["Held by readers", told["escaped_bytes"] ?? 0, whole, "dropped, and still being sent"],
    ["Connections", told["connections_bytes"] ?? 0, told["connections_bytes_max"] ?? 1, `of ${bytes(told["connections_bytes_max"])} that they may use`],
  ];
  return h("dl", { class: "bars" }, ...rows.map(([label, value, of, about]) => bar(String(label), Number(value), Number(of), String(about))));
}

/**
 * @param {string} label
 * @param {number} value
 * @param {number} of
 * @param {string} about
 */
function bar(label, value, of, about) {
  const share = of > 0 ? Math.min(value / of, 1) : 0;
  const filled = h("span", { class: "bar-filled", style: { width: `${(share * 100).toFixed(1)}%` } });
  return h("div", { class: "bar-row" }, h("dt", null, label, h("span", { class: "bar-about" }, about)), h("dd", null, bytes(value)), h("dd", { class: "bar", "aria-hidden": "true" }, filled));
}

/** @param {any} told */
function loopFacts(told) {
  const { late_p99_s: late, work_p99_s: work, processors_used: used } = told.loop;
  const waits = told.waits.map((/** @type {[string, number]} */ [lot, count]) => `${lot.replaceAll("_", " ")}: ${number(count)}`).join(", ");
  return facts([
    ["Processor", `${percent(used)} of one`],
    ["Events wait", `${seconds(late)} (99 of 100)`],
    ["Work at a time", `${seconds(work)} (99 of 100)`],
    ["Waiting", waits || "nothing"],
  ]);
}

/** @param {number | null} value */
export function seconds(value) {
  if (value === null) return "–";
  return value < 0.001 ? `${number(Math.round(value * 1e6))} µs` : duration(value * 1_000);
}

/** @param {AbortSignal} signal */
function requestTable(signal) {
  /** @type {import("../core/table.js").Column<Requests>[]} */
  const columns = [
    { title: "Request", sort: (one) => one.name, cell: (one) => one.name },
    { title: "Rate", is_number: true, sort: (one) => one.per_s, cell: (one) => rate(one.per_s) },
    { title: "Half within", is_number: true, sort: (one) => one.p50_s, cell: (one) => seconds(one.p50_s), hint: "Median time from a request to its answer" },
    { title: "99 % within", is_number: true, sort: (one) => one.p99_s, cell: (one) => seconds(one.p99_s) },
    { title: "Errors", is_number: true, sort: (one) => one.failed_per_s, cell: (one) => (one.failed_per_s ? h("span", { class: "tone-warn" }, rate(one.failed_per_s)) : "0") },
  ];
  const empty = () => h("p", { class: "empty" }, "No request came in the last seconds.");
  return table({ caption: "Requests by kind", columns, key: (one) => one.name, signal, sort_by: 1, is_descending: true, empty });
}

/** @param {AbortSignal} signal */
function connectionTable(signal) {
  /** @type {import("../core/table.js").Column<Connections>[]} */
  const columns = [
    { title: "Listener", is_mono: true, sort: (one) => one.name, cell: (one) => text(one.name) },
    { title: "Open", is_number: true, sort: (one) => one.open, cell: (one) => number(one.open) },
  ];
  const empty = () => h("p", { class: "empty" }, "Nobody is connected.");
  return table({ caption: "Connections by listener", columns, key: (one) => one.name, signal, empty });
}

/** @param {any} own */
function identityPanel(own) {
  const listeners = Object.entries(own.listeners).map(([kind, address]) => h("p", null, h("span", { class: "mono" }, String(address)), " ", h("span", { class: "quiet" }, kind)));
  return h(
    "section",
    { class: "panel" },
    h("h2", null, "About it"),
    facts([
      ["Version", `${own.version} on Python ${own.python}`],
      ["Number", own.node_id],
      ["Cluster id", h("span", { class: "mono" }, own.cluster_id)],
      ["Started", moment(own.started_ms)],
      ["Open files", `${number(own.open_files)} of ${number(own.open_files_max)}`],
      ["Listens at", h("div", null, ...listeners)],
    ]),
  );
}
