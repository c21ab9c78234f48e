/** Services of the node: how often each method is called, how long it takes, what fails. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { duration, number, percent, rate } from "../core/format.js";
import { repeat } from "../core/live.js";
import { emptyState, errorState, loading, note, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { table } from "../core/table.js";

/**
 * @typedef {{name: string, requests_total: number, errors_total: number, in_flight: number, processing_ms_average: number,
 *   processing_ms_max: number, last_error: string}} Method
 */
/** @typedef {{address: string, name: string, version: string, instances: number, methods: Method[]}} Service */
/** @typedef {{service: Service, method: Method, calls_per_s: number | null}} Row */

const AGAIN_MS = 2_000;

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Services",
  async open(container, _params, _query, signal) {
    const body = h("div", { class: "view" }, loading("services"));
    replace(container, pageHead({ title: "Services", about: "Methods that this node answers, over the bus, connections and gRPC." }), body);
    const list = methodTable(signal);
    const problem = h("div");
    const rates = new CallRates();
    const ask = async () => {
      const told = await api.get("/api/services", { signal });
      replace(problem, told.truncated ? note("warn", "Not all services are listed.") : null);
      list.update(rates.rows(told));
      return told;
    };
    const first = await ask();
    if (!first.has_services) {
      const how = ["A program binds one with ", h("code", null, "await node.rpc.bind(Stock, Shelf())"), "."];
      replace(body, emptyState("No service is bound in this node.", how));
      return;
    }
    replace(body, problem, list.element);
    repeat(() => ask().catch((error) => signal.aborted || replace(problem, errorState(error))), AGAIN_MS, signal);
  },
};

/** Calls a second, from one answer to the next. */
export class CallRates {
  constructor() {
    this.at_ms = 0;
    /** @type {Map<string, number>} */
    this.before = new Map();
  }

  /**
   * @param {{at_ms: number, services: Service[]}} told
   * @returns {Row[]}
   */
  rows(told) {
    const seconds = (told.at_ms - this.at_ms) / 1_000;
    const before = this.before;
    this.at_ms = told.at_ms;
    this.before = new Map();
    return told.services.flatMap((service) =>
      service.methods.map((method) => {
        const key = `${service.address} ${method.name}`;
        const past = before.get(key);
        this.before.set(key, method.requests_total);
        const calls_per_s = past === undefined || seconds <= 0 ? null : (method.requests_total - past) / seconds;
        return { service, method, calls_per_s };
      }),
    );
  }
}

/** @param {AbortSignal} signal */
function methodTable(signal) {
  /** @type {import("../core/table.js").Column<Row>[]} */
  const columns = [
    { title: "Service", is_mono: true, sort: (row) => row.service.address, cell: (row) => h("a", { href: link`/services/${row.service.address}` }, ...text(row.service.address)) },
    { title: "Method", is_mono: true, sort: (row) => row.method.name, cell: (row) => text(row.method.name) },
    { title: "Calls", is_number: true, sort: (row) => row.calls_per_s ?? 0, cell: (row) => rate(row.calls_per_s), hint: "A second, since this list was last asked for" },
    { title: "In all", is_number: true, sort: (row) => row.method.requests_total, cell: (row) => number(row.method.requests_total) },
    { title: "Under way", is_number: true, sort: (row) => row.method.in_flight, cell: (row) => number(row.method.in_flight) },
    { title: "Mean", is_number: true, sort: (row) => row.method.processing_ms_average, cell: (row) => duration(row.method.processing_ms_average) },
    { title: "Longest", is_number: true, sort: (row) => row.method.processing_ms_max, cell: (row) => duration(row.method.processing_ms_max) },
    { title: "Failed", is_number: true, sort: (row) => row.method.errors_total, cell: failedOf },
    { title: "Last failure", cell: (row) => text(row.method.last_error) },
  ];
  return table({
    caption: "Methods of services",
    columns,
    signal,
    key: (row) => `${row.service.address} ${row.method.name}`,
    search: (row) => `${row.service.address}.${row.method.name}`,
    filter_label: "Filter methods",
    noun: "method",
    sort_by: 0,
  });
}

/** @param {Row} row */
function failedOf(row) {
  const { errors_total, requests_total } = row.method;
  if (errors_total === 0) return number(0);
  return h("span", { class: "tone-warn" }, `${number(errors_total)} (${percent(errors_total / requests_total)})`);
}
