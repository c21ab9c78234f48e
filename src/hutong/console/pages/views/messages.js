/** The messages of a topic: pages from any place, a search, the live tail; and records written from here. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { counted, number } from "../core/format.js";
import { bind } from "../core/keys.js";
import { button, emptyState, errorState, loading, note } from "../core/parts.js";
import { link } from "../core/paths.js";
import { setQuery } from "../core/router.js";
import { canChange } from "../core/session.js";
import { askedOf, faultOf, formsOf, isSearch, pageQuery, searchQuery } from "./messages_asked.js";
import { formSelects, messagesBar } from "./messages_bar.js";
import { following, searching } from "./messages_live.js";
import { MessagesTable, commonCompression } from "./messages_table.js";
import { copyRecords, produceRecord } from "./messages_write.js";
import { topicHead } from "./topic_head.js";

/** @typedef {import("./messages_asked.js").Asked} Asked */
/**
 * @typedef {{records: import("./messages_record.js").Message[], older: string | null, newer: string,
 *   begins: Record<string, number>, ends: Record<string, number>, is_partial: boolean, batches_missing: string[]}} Page
 */

/** @type {import("../core/router.js").View} */
export const view = {
  title: (params) => `Messages of ${params.name ?? ""}`,
  async open(container, params, query, signal) {
    const page = new MessagesPage(params.name ?? "", askedOf(query), signal);
    replace(container, page.element);
    await page.draw();
  },
};

class MessagesPage {
  /**
   * @param {string} topic
   * @param {Asked} asked
   * @param {AbortSignal} signal
   */
  constructor(topic, asked, signal) {
    this.topic = topic;
    this.asked = asked;
    this.signal = signal;
    this.drawing = new AbortController();
    signal.addEventListener("abort", () => this.drawing.abort(), { once: true });
    /** @type {Page | null} */
    this.page = null;
    this.content = h("div", { class: "view" });
    const produce = () => void produceRecord(topic).then(() => this.drawn());
    const actions = canChange() ? [button("Produce", produce, { kind: "main", icon: "plus" }), button("Copy records", () => this.copy())] : [];
    if (canChange()) bind("n", "Produce a record", produce, { signal });
    bind("l", "Follow live, or stop", () => this.show({ ...this.asked, live: this.asked.live ? "" : "yes" }), { signal });
    bind("[", "Newer records", () => this.step("newer"), { signal });
    bind("]", "Older records", () => this.step("older"), { signal });
    const bar = messagesBar(asked, signal, (wanted) => this.show(wanted));
    this.element = h("div", { class: "view" }, topicHead(topic, "messages", actions), bar, this.content);
  }

  /** @param {Asked} asked */
  show(asked) {
    this.asked = asked;
    setQuery(asked);
    return this.drawn();
  }

  /** Draw, and show an error in its place. */
  async drawn() {
    try {
      await this.draw();
    } catch (error) {
      if (!this.drawing.signal.aborted) replace(this.content, errorState(error, () => void this.drawn()));
    }
  }

  async draw() {
    this.drawing.abort();
    if (this.signal.aborted) return;
    const drawing = new AbortController();
    this.drawing = drawing;
    const table = new MessagesTable(this.topic, drawing.signal, () => formsOf(this.asked));
    const selects = formSelects(this.asked, (name, form) => void this.show({ ...this.asked, [name]: form }));
    const live = button(this.asked.live ? "Stop following" : "Follow live", () => void this.show({ ...this.asked, live: this.asked.live ? "" : "yes" }));
    const place = h("div", { class: "messages-place" });
    const toolbar = h("div", { class: "toolbar messages-toolbar" }, place, ...selects, live);
    if (this.asked.live) {
      replace(place, following(this.topic, formsOf(this.asked), table, drawing.signal));
      replace(this.content, toolbar, table.element);
    } else if (isSearch(this.asked) && faultOf(this.asked) === null) {
      replace(place, searching(this.topic, searchQuery(this.asked), table, drawing.signal));
      replace(this.content, toolbar, table.element);
    } else {
      await this.drawPage(table, toolbar, place, drawing.signal);
    }
  }

  /**
   * @param {MessagesTable} table
   * @param {HTMLElement} toolbar
   * @param {HTMLElement} place
   * @param {AbortSignal} signal
   */
  async drawPage(table, toolbar, place, signal) {
    if (!this.content.hasChildNodes()) replace(this.content, loading("messages"));
    const fault = faultOf(this.asked);
    const asked = fault === null ? this.asked : { ...this.asked, from: "newest" };
    const page = /** @type {Page} */ (await api.get(link`/api/topics/${this.topic}/messages`, { query: pageQuery(asked), signal }));
    this.page = page;
    table.show(newestFirst(asked) ? page.records : [...page.records].reverse());
    replace(place, this.summary(page));
    const partial = page.is_partial ? note("warn", "The brokers were slow: some partitions are missing here. Show it again.") : null;
    const body = page.records.length ? table.element : this.nothing(page);
    replace(this.content, toolbar, partial, body, isEmpty(page) ? null : this.steps(page), missingBatches(page));
  }

  /** @param {Page} page */
  summary(page) {
    const all = Object.keys(page.ends).reduce((sum, each) => sum + (page.ends[each] ?? 0) - (page.begins[each] ?? 0), 0);
    if (all === 0) return h("p", { class: "count", role: "status" }, "No records");
    const codec = commonCompression(page.records);
    const packed = codec === null ? "" : codec === "none" ? ", not compressed" : `, compressed by ${codec}`;
    return h("p", { class: "count", role: "status" }, `${counted(page.records.length, "record")} of about ${number(all)}${packed}`);
  }

  /** @param {Page} page */
  nothing(page) {
    if (isEmpty(page)) return emptyState("This topic has no records yet.", "Produce one here, or follow it live and start a producer.");
    return emptyState("There are no records from there on.", "Newer ones appear here once they are written.");
  }

  /** @param {Page} page */
  steps(page) {
    const newer = button("Newer", () => void this.step("newer"));
    const older = button("Older", () => void this.step("older"), { disabled: page.older === null });
    const newest = button("Newest", () => void this.show({ ...this.asked, from: "newest", before: "", after: "" }));
    return h("nav", { class: "actions", "aria-label": "Older and newer records" }, newest, newer, older);
  }

  /** @param {"newer" | "older"} direction */
  async step(direction) {
    if (!this.page || this.asked.live || isSearch(this.asked)) return;
    if (direction === "older" && this.page.older) await this.show({ ...this.asked, before: this.page.older, after: "" });
    if (direction === "newer") await this.show({ ...this.asked, before: "", after: this.page.newer });
    this.element.scrollIntoView({ block: "nearest" });
  }

  async copy() {
    const query = { from: "newest", limit: 1, partitions: this.asked.partitions };
    const page = /** @type {Page} */ (await api.get(link`/api/topics/${this.topic}/messages`, { query, signal: this.signal }));
    await copyRecords(this.topic, page.begins, page.ends);
  }
}

/** @param {Page} page */
function missingBatches({ records, batches_missing }) {
  if (!records.length || !batches_missing.length) return null;
  const which = records.some((record) => record.batch) ? "some" : "these";
  return h("p", { class: "about" }, `The compression of ${which} records is not shown. ${batches_missing.join(" ")}`);
}

/**
 * True for a topic without a record.
 * @param {Page} page
 */
function isEmpty(page) {
  return Object.keys(page.ends).every((each) => page.ends[each] === page.begins[each]);
}

/**
 * True where the answer has the newest first; pages from a place on come in the order of time.
 * @param {Asked} asked
 */
function newestFirst(asked) {
  return !asked.after && (asked.before !== "" || asked.from === "" || asked.from === "newest");
}
