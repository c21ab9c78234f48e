/** All groups: their type and state at once, lag and members for the rows in sight. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { number } from "../core/format.js";
import { repeat } from "../core/live.js";
import { badge, card, cards, emptyState, errorState, loading, note, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { setQuery } from "../core/router.js";
import { table } from "../core/table.js";
import { VisibleLags } from "./groups_lag.js";

/** @typedef {{name: string, state: string, type: string, is_simple: boolean}} Group */
/** @typedef {{groups: Group[], truncated: boolean, problems: string[], has_all_types: boolean}} Listed */

const AGAIN_MS = 10_000;
const MISSING = "Share and streams groups are not listed: the client library cannot ask for them. A console of a node of Hutong lists them for users that may describe the cluster.";
const PARTLY = "Members and lag of share and streams groups are on their own pages.";
const FROM_NODE = new Set(["share", "streams"]);

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Groups",
  async open(container, _params, query, signal) {
    const body = h("div", { class: "view" }, loading("groups"));
    const about = "Consumers of a group share the partitions of their topics. Lag is what they have not read yet.";
    replace(container, pageHead({ title: "Groups", about }), body);
    const figures = h("div");
    const problem = h("div");
    const about_types = h("p", { class: "about" });
    const list = groupTable(query, signal);
    const ask = async () => {
      const told = await api.get("/api/groups", { signal });
      replace(figures, summary(told.groups));
      replace(problem, ...problems(told));
      list.update(told.groups);
      replace(about_types, aboutTypes(told));
    };
    await ask();
    replace(body, figures, problem, list.element, about_types);
    repeat(() => ask().catch((error) => signal.aborted || replace(problem, errorState(error))), AGAIN_MS, signal);
  },
};

/**
 * @param {string} state
 * @returns {HTMLElement}
 */
export function stateBadge(state) {
  const tone = state === "stable" ? "good" : state.includes("rebalance") ? "warn" : "plain";
  return badge(state, tone);
}

/**
 * True for a group that the client library cannot ask for: the node tells it.
 * @param {{type: string}} group
 */
export function isFromNode(group) {
  return FROM_NODE.has(group.type);
}

/** @param {Listed} told */
function aboutTypes({ groups, has_all_types }) {
  if (!has_all_types) return MISSING;
  return groups.some(isFromNode) ? PARTLY : null;
}

/**
 * @param {URLSearchParams} query
 * @param {AbortSignal} signal
 */
function groupTable(query, signal) {
  const lags = new VisibleLags(signal);
  const figure = (/** @type {Group} */ group, /** @type {"lag" | "members"} */ name) => (isFromNode(group) ? number(null) : lags.cell(group.name, name));
  /** @type {import("../core/table.js").Column<Group>[]} */
  const columns = [
    { title: "Group", is_mono: true, sort: (group) => group.name, cell: (group) => h("a", { href: link`/groups/${group.name}` }, ...text(group.name)) },
    { title: "State", sort: (group) => group.state, cell: (group) => stateBadge(group.state) },
    { title: "Type", sort: (group) => group.type, cell: (group) => (group.is_simple ? `${group.type}, commits by hand` : group.type) },
    { title: "Members", is_number: true, cell: (group) => figure(group, "members") },
    { title: "Lag", is_number: true, sort: (group) => lags.lag(group.name), cell: (group) => figure(group, "lag"), hint: "Records that are not read yet; sorted among the groups that were in sight" },
  ];
  return table({
    caption: "Groups",
    columns,
    signal,
    key: (group) => group.name,
    search: (group) => `${group.name} ${group.state} ${group.type}`,
    filter_label: "Filter groups",
    noun: "group",
    sort_by: 0,
    filter: query.get("filter") ?? "",
    onFilter: (filter) => setQuery({ filter }),
    empty: () => emptyState("No group has read anything yet.", ["A consumer makes one with its ", h("code", null, "group.id"), ", such as ", h("code", null, "hutong consume TOPIC --group NAME"), "."]),
  });
}

/** @param {Group[]} groups */
function summary(groups) {
  const count = (/** @type {(group: Group) => boolean} */ of) => number(groups.filter(of).length);
  return cards(
    card("Groups", number(groups.length)),
    card("Stable", count((group) => group.state === "stable")),
    card("Rebalancing", count((group) => group.state.includes("rebalance"))),
    card("Without members", count((group) => group.state === "empty")),
  );
}

/** @param {Listed} told */
function problems(told) {
  return [
    told.truncated ? note("warn", `Only the first ${number(told.groups.length)} groups are listed.`) : null,
    told.problems.length ? note("warn", `Some brokers did not answer: ${told.problems.join("; ")}`) : null,
  ];
}
