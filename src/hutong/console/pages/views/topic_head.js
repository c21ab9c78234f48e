/** The head of a topic's pages: its name, its tabs, and what can be done with all of it. */

import { h } from "../core/dom.js";
import { pageHead, tabs } from "../core/parts.js";
import { link } from "../core/paths.js";

/** @typedef {"messages" | "partitions" | "settings"} TopicTab */

/**
 * @param {string} name
 * @param {TopicTab} tab the one that is shown
 * @param {import("../core/dom.js").Child[]} [actions]
 * @returns {HTMLElement}
 */
export function topicHead(name, tab, actions = []) {
  const items = [
    { label: "Messages", href: link`/topics/${name}/messages`, is_current: tab === "messages" },
    { label: "Partitions", href: link`/topics/${name}`, is_current: tab === "partitions" },
    { label: "Settings", href: link`/topics/${name}/settings`, is_current: tab === "settings" },
  ];
  const head = pageHead({ title: name, trail: [{ label: "Topics", href: "/topics" }], actions, is_name: true });
  return h("div", { class: "head-with-tabs" }, head, tabs("Pages of this topic", items));
}
