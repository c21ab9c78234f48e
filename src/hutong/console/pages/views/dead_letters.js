/** Topics of dead letters: how many, how many are still there, and why. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { form } from "../core/form.js";
import { ago, number } from "../core/format.js";
import { repeat } from "../core/live.js";
import { badge, card, cards, emptyState, errorState, loading, note, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { goTo } from "../core/router.js";
import { table } from "../core/table.js";

/** @typedef {{name: string, partitions: number, count: number, done: number, left: number, problem: string | null}} LetterTopic */
/** @typedef {{sampled: number, newest_ms: number | null, conventions: string[], reasons: {reason: string, count: number}[]}} Reasons */

const AGAIN_MS = 10_000;
const REASONS_SHOWN = 3;
const READ_AT_ONCE = 2; // each read has a consumer of its own

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Dead letters",
  async open(container, _params, _query, signal) {
    const body = h("div", { class: "view" }, loading("topics of dead letters"));
    const about = "Records that a handler, a share group, a pipeline or a connector has given up. Look why, and send them back once it is mended.";
    replace(container, pageHead({ title: "Dead letters", about }), body);
    /** @type {Map<string, Reasons>} */
    const reasons = new Map();
    const figures = h("div");
    const problem = h("div");
    const list = topicTable(reasons, signal);
    /** @type {LetterTopic[]} */
    let topics = [];
    const ask = async () => {
      const told = await api.get("/api/dead-letters", { signal });
      topics = told.topics;
      replace(figures, summary(topics));
      replace(problem, told.truncated ? note("warn", `Only the first ${number(topics.length)} topics are listed.`) : null);
      list.update(topics);
      return told.names;
    };
    const names = await ask();
    replace(body, figures, problem, list.element, openAnother(names));
    repeat(() => ask().catch((error) => signal.aborted || replace(problem, errorState(error))), AGAIN_MS, signal);
    const waiting = topics.filter((topic) => topic.count > 0);
    const read = async () => {
      for (let topic = waiting.shift(); topic && !signal.aborted; topic = waiting.shift()) {
        reasons.set(topic.name, await api.get(link`/api/dead-letters/${topic.name}/reasons`, { signal }));
        list.update(topics);
      }
    };
    await Promise.all(Array.from({ length: READ_AT_ONCE }, read));
  },
};

/**
 * @param {Map<string, Reasons>} reasons
 * @param {AbortSignal} signal
 */
function topicTable(reasons, signal) {
  const newest = (/** @type {LetterTopic} */ topic) => reasons.get(topic.name)?.newest_ms ?? null;
  /** @type {import("../core/table.js").Column<LetterTopic>[]} */
  const columns = [
    { title: "Topic", is_mono: true, sort: (topic) => topic.name, cell: (topic) => h("a", { href: link`/dead-letters/${topic.name}` }, ...text(topic.name)) },
    { title: "Letters", is_number: true, sort: (topic) => topic.count, cell: (topic) => number(topic.count) },
    { title: "Not sent back", is_number: true, sort: (topic) => topic.left, cell: (topic) => (topic.problem ? h("span", { title: topic.problem }, badge("not known", "warn")) : number(topic.left)) },
    { title: "Newest", sort: newest, cell: (topic) => ago(newest(topic), Date.now()) },
    { title: "Reasons of the newest", cell: (topic) => reasonsOf(reasons.get(topic.name)) },
  ];
  return table({
    caption: "Topics of dead letters",
    columns,
    signal,
    key: (topic) => topic.name,
    search: (topic) => topic.name,
    filter_label: "Filter topics",
    noun: "topic",
    sort_by: 2,
    is_descending: true,
    empty: () => emptyState("There are no topics of dead letters.", "That is good. They are found by their names: NAME.GROUP.dead, DLQ.GROUP, NAME-dlt and the like."),
  });
}

/** @param {Reasons | undefined} told */
function reasonsOf(told) {
  if (!told) return "";
  const shown = told.reasons.slice(0, REASONS_SHOWN).flatMap(({ reason, count }) => [badge(`${shortened(reason)} ${number(count)}`), " "]);
  const rest = told.reasons.length - REASONS_SHOWN;
  return rest > 0 ? [...shown, `and ${rest} more`] : shown;
}

/** @param {string} reason the last part of a class's name says enough */
function shortened(reason) {
  return /^[\w.$]+$/.test(reason) ? (reason.split(/[.$]/).at(-1) ?? reason) : reason;
}

/** @param {LetterTopic[]} topics */
function summary(topics) {
  const sum = (/** @type {(topic: LetterTopic) => number} */ of) => topics.reduce((total, topic) => total + of(topic), 0);
  const left = sum((topic) => topic.left);
  return cards(
    card("Topics with letters", number(topics.filter((topic) => topic.count > 0).length)),
    card("Letters", number(sum((topic) => topic.count))),
    card("Not sent back", number(left), { tone: left ? "warn" : "good" }),
  );
}

/** @param {string[]} names */
function openAnother(names) {
  const made = form({
    fields: [{ name: "topic", label: "A topic with another name", required: true, is_mono: true, suggestions: names }],
    action: "Open",
    submit: ({ topic }) => goTo(link`/dead-letters/${topic}`),
    is_inline: true,
  });
  return h("section", { class: "panel" }, made);
}
