/** The choice of a topic whose messages are to be seen. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { rate, short } from "../core/format.js";
import { emptyState, loading, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { setQuery } from "../core/router.js";
import { table } from "../core/table.js";

/** @typedef {import("./topics.js").Topic} Topic */

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Messages",
  async open(container, _params, query, signal) {
    const body = h("div", { class: "view" }, loading("topics"));
    replace(container, pageHead({ title: "Messages", about: "Choose a topic." }), body);
    const told = await api.get("/api/topics", { query: { with_sizes: true }, signal });
    const list = table({
      caption: "Topics",
      columns: [
        { title: "Topic", is_mono: true, sort: (topic) => topic.name, cell: (topic) => h("a", { href: link`/topics/${topic.name}/messages` }, ...text(topic.name)) },
        { title: "Records", is_number: true, sort: (topic) => topic.records, cell: (topic) => short(topic.records) },
        { title: "Rate", is_number: true, sort: (topic) => topic.records_per_s, cell: (topic) => rate(topic.records_per_s) },
      ],
      key: (topic) => topic.name,
      rows: /** @type {Topic[]} */ (told.topics),
      signal,
      search: (topic) => topic.name,
      filter_label: "Filter topics",
      noun: "topic",
      sort_by: 0,
      filter: query.get("filter") ?? "",
      onFilter: (filter) => setQuery({ filter }),
      empty: () => emptyState("There are no topics yet.", "Create one on the page of topics."),
    });
    replace(body, list.element);
  },
};
