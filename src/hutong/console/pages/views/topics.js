/** All topics: how large, how busy, how even; a new one is made here. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { bytes, number, rate, short } from "../core/format.js";
import { bind } from "../core/keys.js";
import { badge, button, card, cards, emptyState, errorState, loading, note, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { repeat } from "../core/live.js";
import { setQuery } from "../core/router.js";
import { canChange } from "../core/session.js";
import { table } from "../core/table.js";
import { createTopic } from "./topics_create.js";

/**
 * @typedef {{name: string, partitions: number, replication: number, is_internal: boolean, size_bytes: number | null,
 *   records: number | null, records_per_s: number | null, skew: number | null}} Topic
 */

const AGAIN_MS = 5_000;
const FIRST_RATE_MS = 1_500;
const SKEW_WARNED = 2;

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Topics",
  async open(container, _params, query, signal) {
    const create = () => void createTopic();
    const add = canChange() ? button("Create topic", create, { kind: "main", icon: "plus" }) : null;
    if (add) bind("n", "Create a topic", create, { signal });
    const body = h("div", { class: "view" }, loading("topics"));
    replace(container, pageHead({ title: "Topics", actions: [add] }), body);
    const list = topicTable(query, signal, create);
    const figures = h("div");
    const problem = h("div");
    let is_internal_shown = query.get("internal") === "yes";
    /** @type {Topic[]} */
    let all = [];
    const show = () => list.update(is_internal_shown ? all : all.filter((topic) => !topic.is_internal));
    const ask = async () => {
      const told = await api.get("/api/topics", { query: { with_sizes: true }, signal });
      all = told.topics;
      replace(figures, summary(all));
      replace(problem, told.truncated ? note("warn", `Only the first ${number(all.length)} topics are listed.`) : null);
      show();
    };
    const internal = internalSwitch(is_internal_shown, (is_shown) => {
      is_internal_shown = is_shown;
      setQuery({ internal: is_shown ? "yes" : null });
      show();
    });
    await ask();
    replace(body, figures, problem, list.element);
    list.element.querySelector(".toolbar")?.append(internal);
    const askAgain = () => ask().catch((error) => signal.aborted || replace(problem, errorState(error)));
    repeat(askAgain, AGAIN_MS, signal, FIRST_RATE_MS);
  },
};

/**
 * @param {URLSearchParams} query
 * @param {AbortSignal} signal
 * @param {() => void} create
 */
function topicTable(query, signal, create) {
  /** @type {import("../core/table.js").Column<Topic>[]} */
  const columns = [
    { title: "Topic", cell: nameOf, sort: (topic) => topic.name, is_mono: true },
    { title: "Partitions", cell: (topic) => number(topic.partitions), sort: (topic) => topic.partitions, is_number: true },
    { title: "Replicas", cell: (topic) => number(topic.replication), sort: (topic) => topic.replication, is_number: true },
    { title: "Size", cell: (topic) => bytes(topic.size_bytes), sort: (topic) => topic.size_bytes, is_number: true, hint: "Bytes of one copy" },
    { title: "Records", cell: (topic) => number(topic.records), sort: (topic) => topic.records, is_number: true, hint: "From the first offset kept to the last" },
    { title: "Rate", cell: (topic) => rate(topic.records_per_s), sort: (topic) => topic.records_per_s, is_number: true, hint: "Records written a second, since this list was last asked for" },
    { title: "Skew", cell: skewOf, sort: (topic) => topic.skew, is_number: true, hint: "Records of the fullest partition over those of the mean: 1 is even" },
  ];
  return table({
    caption: "Topics",
    columns,
    key: (topic) => topic.name,
    signal,
    search: (topic) => topic.name,
    filter_label: "Filter topics",
    noun: "topic",
    sort_by: 0,
    filter: query.get("filter") ?? "",
    onFilter: (filter) => setQuery({ filter }),
    empty: () => noTopics(create),
  });
}

/** @param {Topic} topic */
function nameOf(topic) {
  const anchor = h("a", { href: link`/topics/${topic.name}/messages` }, ...text(topic.name));
  return topic.is_internal ? [anchor, " ", badge("internal")] : anchor;
}

/** @param {Topic} topic */
function skewOf(topic) {
  if (topic.skew === null) return number(null);
  const told = topic.skew.toFixed(1);
  return topic.skew >= SKEW_WARNED ? h("span", { class: "tone-warn", title: "One partition holds far more than the others" }, told) : told;
}

/** @param {Topic[]} topics */
function summary(topics) {
  const own = topics.filter((topic) => !topic.is_internal);
  const sum = (/** @type {(topic: Topic) => number | null} */ of) => {
    const known = own.map(of).filter((value) => value !== null);
    return known.length ? known.reduce((total, value) => total + value, 0) : null;
  };
  return cards(
    card("Topics", number(own.length)),
    card("Partitions", number(sum((topic) => topic.partitions))),
    card("Size of one copy", bytes(sum((topic) => topic.size_bytes))),
    card("Records", short(sum((topic) => topic.records))),
    card("Written", rate(sum((topic) => topic.records_per_s))),
  );
}

/** @param {() => void} create */
function noTopics(create) {
  const next = ["A topic keeps records in order. Create one here, or with ", h("code", null, "hutong topic create NAME"), "."];
  return emptyState("There are no topics yet.", next, canChange() ? button("Create topic", create, { kind: "main" }) : null);
}

/**
 * @param {boolean} is_shown
 * @param {(is_shown: boolean) => void} change
 */
function internalSwitch(is_shown, change) {
  const box = h("input", { type: "checkbox", class: "check", checked: is_shown });
  box.addEventListener("change", () => change(box.checked));
  return h("label", { class: "field-check" }, box, "Internal topics");
}
