/** The busiest topics and the groups with most lag of a cluster that is seen from outside: by Kafka's protocol alone. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { number, rate } from "../core/format.js";
import { repeat } from "../core/live.js";
import { errorNote, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { table } from "../core/table.js";

/** @typedef {{name: string, is_internal: boolean, records: number | null, records_per_s: number | null}} Topic */
/** @typedef {{name: string, lag: number | null, members: number | null}} Group */

const AGAIN_MS = 10_000;
const LISTED_MAX = 8;
const GROUPS_ASKED_MAX = 50; // the bound of one question about lag

/** @param {AbortSignal} signal */
export function outsideTables(signal) {
  const topics = topicTable(signal);
  const groups = groupTable(signal);
  const about = h("p", { class: "quiet" });
  const problem = h("div");
  const element = h(
    "div",
    { class: "panels panels-even" },
    h("section", null, h("h2", null, h("a", { href: "/groups" }, "Groups with most lag")), groups.element, about),
    h("section", null, h("h2", null, h("a", { href: "/topics" }, "Busiest topics")), topics.element, problem),
  );
  const ask = async () => {
    try {
      const [told, [found, of]] = await Promise.all([api.get("/api/topics", { query: { with_sizes: false }, signal }), latestGroups(signal)]);
      topics.update(busiest(told.topics));
      groups.update(found);
      replace(about, of > GROUPS_ASKED_MAX ? `Of the first ${GROUPS_ASKED_MAX} of ${number(of)} groups.` : null);
      replace(problem);
    } catch (error) {
      if (!signal.aborted) replace(problem, errorNote(error));
    }
  };
  void ask();
  repeat(ask, AGAIN_MS, signal);
  return element;
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<[Group[], number]>} those with most lag, and the number of all groups
 */
async function latestGroups(signal) {
  const told = await api.get("/api/groups", { signal });
  const names = told.groups.slice(0, GROUPS_ASKED_MAX).map((/** @type {Group} */ one) => one.name);
  const { lags } = await api.post("/api/groups/lags", { groups: names }, { signal });
  const groups = Object.entries(lags).map(([name, one]) => ({ name, lag: one.lag, members: one.members }));
  groups.sort((one, other) => (other.lag ?? -1) - (one.lag ?? -1));
  return [groups.slice(0, LISTED_MAX), told.groups.length];
}

/** @param {Topic[]} topics */
function busiest(topics) {
  const own = topics.filter((topic) => !topic.is_internal);
  own.sort((one, other) => (other.records_per_s ?? -1) - (one.records_per_s ?? -1) || (other.records ?? 0) - (one.records ?? 0));
  return own.slice(0, LISTED_MAX);
}

/** @param {AbortSignal} signal */
function topicTable(signal) {
  /** @type {import("../core/table.js").Column<Topic>[]} */
  const columns = [
    { title: "Topic", is_mono: true, cell: (one) => h("a", { href: link`/topics/${one.name}` }, ...text(one.name)) },
    { title: "Written", is_number: true, cell: (one) => rate(one.records_per_s) },
    { title: "Records", is_number: true, cell: (one) => number(one.records) },
  ];
  const empty = () => h("p", { class: "empty" }, "There are no topics yet.");
  return table({ caption: "Busiest topics", columns, key: (one) => one.name, signal, empty });
}

/** @param {AbortSignal} signal */
function groupTable(signal) {
  /** @type {import("../core/table.js").Column<Group>[]} */
  const columns = [
    { title: "Group", is_mono: true, cell: (one) => h("a", { href: link`/groups/${one.name}` }, ...text(one.name)) },
    { title: "Lag", is_number: true, cell: (one) => number(one.lag) },
    { title: "Members", is_number: true, cell: (one) => number(one.members) },
  ];
  const empty = () => h("p", { class: "empty" }, "No group has read anything yet.");
  return table({ caption: "Groups with most lag", columns, key: (one) => one.name, signal, empty });
}
