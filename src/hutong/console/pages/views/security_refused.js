/** Who was refused of late: which right was missing, and how often it was asked for. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { number } from "../core/format.js";
import { repeat } from "../core/live.js";
import { emptyState, errorState, loading, moment, text } from "../core/parts.js";
import { session } from "../core/session.js";
import { table } from "../core/table.js";
import { securityHead } from "./security.js";

/**
 * @typedef {{principal: string, host: string, operation: string, resource: string, name: string, count: number,
 *   first_ms: number, last_ms: number}} Refusal
 */

const AGAIN_MS = 3_000;

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Refused",
  async open(container, _params, _query, signal) {
    const body = h("div", { class: "view" }, loading("refusals"));
    replace(container, securityHead("refused", []), body);
    if (!session().has_node) {
      replace(body, emptyState("This console has no node of its own.", "Other brokers write whom they refused into their own logs."));
      return;
    }
    const problem = h("div");
    const list = refusalTable(signal);
    const ask = async () => list.update((await api.get("/api/security/refusals", { signal })).refusals);
    await ask();
    replace(body, problem, list.element);
    repeat(() => ask().then(() => replace(problem), (error) => signal.aborted || replace(problem, errorState(error))), AGAIN_MS, signal);
  },
};

/** @param {AbortSignal} signal */
function refusalTable(signal) {
  /** @type {import("../core/table.js").Column<Refusal>[]} */
  const columns = [
    { title: "Last", cell: (each) => moment(each.last_ms), sort: (each) => each.last_ms },
    { title: "Times", cell: (each) => number(each.count), sort: (each) => each.count, is_number: true },
    { title: "Principal", cell: (each) => text(each.principal), sort: (each) => each.principal, is_mono: true },
    { title: "Host", cell: (each) => text(each.host), sort: (each) => each.host, is_mono: true },
    { title: "Operation", cell: (each) => each.operation.replaceAll("_", " "), sort: (each) => each.operation },
    { title: "Resource", cell: (each) => each.resource.replaceAll("_", " "), sort: (each) => each.resource },
    { title: "Name", cell: (each) => text(each.name), sort: (each) => each.name, is_mono: true },
  ];
  return table({
    caption: "Refused rights",
    columns,
    key: (each) => JSON.stringify([each.principal, each.host, each.operation, each.resource, each.name]),
    signal,
    search: (each) => `${each.principal} ${each.host} ${each.operation} ${each.resource} ${each.name}`,
    filter_label: "Filter refusals",
    noun: "refusal",
    empty: () => emptyState("Nobody was refused since the node began.", "A node that authorizes lists here which right a client lacked."),
  });
}
