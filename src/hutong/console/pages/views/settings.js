/** Settings of the node that serves the console: each value, its default and what it means. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { badge, emptyState, loading, pageHead, tabs, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { setQuery } from "../core/router.js";
import { session } from "../core/session.js";
import { table } from "../core/table.js";

/** @typedef {{name: string, value: unknown, default: unknown, is_default: boolean, meaning: string, kafka_name: string | null}} NodeSetting */
/** @typedef {{id: number, host: string, port: number, is_controller: boolean}} Broker */

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Settings",
  async open(container, _params, query, signal) {
    const body = h("div", { class: "view" }, loading("settings"));
    replace(container, settingsHead([], null), body);
    const { brokers } = await api.get("/api/settings/brokers", { signal });
    replace(container, settingsHead(brokers, null), body);
    if (!session().has_node) {
      replace(body, emptyState("This console has no node of its own.", "The tabs show what the brokers tell of their settings."));
      return;
    }
    const told = await api.get("/api/settings/node", { signal });
    replace(body, settingTable(told.settings, query, signal).element);
  },
};

/**
 * The head of all pages of settings.
 * @param {Broker[]} brokers
 * @param {number | null} current null: the node of the console
 */
export function settingsHead(brokers, current) {
  const items = [
    { label: "This node", href: "/settings", is_current: current === null },
    ...brokers.map((each) => ({ label: `Broker ${each.id}`, href: link`/settings/brokers/${each.id}`, is_current: each.id === current })),
  ];
  return h("div", { class: "head-with-tabs" }, pageHead({ title: "Settings" }), tabs("Whose settings", items));
}

/**
 * @param {NodeSetting[]} rows
 * @param {URLSearchParams} query
 * @param {AbortSignal} signal
 */
function settingTable(rows, query, signal) {
  /** @type {import("../core/table.js").Column<NodeSetting>[]} */
  const columns = [
    { title: "Setting", cell: (each) => text(each.name), sort: (each) => each.name, is_mono: true },
    { title: "Value", cell: (each) => text(shown(each.value)), sort: (each) => shown(each.value), is_mono: true },
    { title: "Source", cell: (each) => (each.is_default ? badge("default") : badge("set", "accent")), sort: (each) => each.is_default },
    { title: "Default", cell: (each) => (each.is_default ? "" : text(shown(each.default))), is_mono: true },
    { title: "Meaning", cell: (each) => each.meaning },
  ];
  return table({
    caption: "Settings of this node",
    columns,
    key: (each) => each.name,
    signal,
    rows,
    search: (each) => `${each.name} ${shown(each.value)} ${each.meaning} ${each.is_default ? "" : "set"}`,
    filter_label: "Filter settings",
    noun: "setting",
    filter: query.get("filter") ?? "",
    onFilter: (filter) => setQuery({ filter }),
    sort_by: 2,
  });
}

/** @param {unknown} value */
function shown(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "string" ? value || "–" : JSON.stringify(value);
}
