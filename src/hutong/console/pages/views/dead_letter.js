/** One topic of dead letters: each record with its reason and origin; chosen ones or all are sent back from here. */

import { api } from "../core/api.js";
import { openDialog } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { ago, bytes, counted, cut, number, utc } from "../core/format.js";
import { bind } from "../core/keys.js";
import { badge, button, card, cards, emptyState, facts, loading, moment, note, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { canChange } from "../core/session.js";
import { table } from "../core/table.js";
import { redriveDialog } from "./redrive.js";
import { RedrivePanel } from "./redrive_progress.js";

/** @typedef {{text: string, form: string, size_bytes: number, is_whole: boolean} | null} Shown */
/**
 * @typedef {{partition: number, offset: number, timestamp_ms: number, size_bytes: number, key: Shown, value: Shown,
 *   headers: {name: string, value: Shown}[], letter: {convention: string, reason: string, error_type: string | null,
 *   error_text: string | null, attempts: number | null, failed_ms: number | null, group: string | null,
 *   is_done: boolean, way: string | null,
 *   origin: {topic: string | null, partition: number | null, offset: number | null}}}} Letter
 */
/**
 * @typedef {{letters: Letter[], reasons: {reason: string, count: number}[], older: string | null, count: number,
 *   done: number, left: number, problem: string | null}} LetterPage
 */

const PAGE = 100;
const CHOSEN_MAX = 1_000;
const VALUE_CHARACTERS = 90;

/** @type {import("../core/router.js").View} */
export const view = {
  title: (params) => params.name ?? "Dead letters",
  open(container, params, _query, signal) {
    return new LetterView(container, params.name ?? "", signal).open();
  },
};

class LetterView {
  /**
   * @param {HTMLElement} container
   * @param {string} topic
   * @param {AbortSignal} signal
   */
  constructor(container, topic, signal) {
    this.topic = topic;
    this.signal = signal;
    this.path = link`/api/dead-letters/${topic}`;
    /** @type {Letter[]} */
    this.letters = [];
    /** @type {Set<string>} */
    this.chosen = new Set();
    /** @type {string | null} */
    this.older = null;
    this.figures = h("div");
    this.more = h("div", { class: "form-actions" });
    this.all = button("Redrive all", () => this.redrive(null, null), { kind: "main", disabled: true });
    this.some = button("Redrive chosen", () => this.redrive(this.places(), null), { disabled: true });
    this.progress = new RedrivePanel(topic, signal, () => this.load());
    this.body = h("div", { class: "view" }, loading("letters"));
    const actions = canChange() ? [this.some, this.all] : [];
    replace(container, pageHead({ title: topic, trail: [{ label: "Dead letters", href: "/dead-letters" }], actions, is_name: true }), this.body);
    if (canChange()) bind("r", "Redrive all letters", () => this.all.click(), { signal });
    this.list = this.letterTable();
  }

  async open() {
    await this.load();
    replace(this.body, this.figures, this.progress.element, this.list.element, this.more);
    await this.progress.find();
  }

  /** Load the newest letters anew. */
  async load() {
    const told = /** @type {LetterPage} */ (await api.get(this.path, { query: { limit: PAGE }, signal: this.signal }));
    this.letters = told.letters;
    this.take(told);
  }

  async loadOlder() {
    const told = /** @type {LetterPage} */ (await api.get(this.path, { query: { limit: PAGE, before: this.older }, signal: this.signal }));
    this.letters = [...this.letters, ...told.letters];
    this.take(told);
  }

  /** @param {LetterPage} told */
  take(told) {
    this.older = told.older;
    replace(this.figures, told.problem ? note("warn", ...text(told.problem)) : null, this.summary(told));
    replace(this.more, told.older === null ? null : button("Show older letters", () => void this.loadOlder()));
    this.all.disabled = told.left === 0;
    this.list.update(this.letters);
  }

  /** @param {LetterPage} told */
  summary(told) {
    const counts = told.reasons.slice(0, 8).map(({ reason, count }) => {
      const act = canChange() ? button("Redrive these", () => this.redrive(null, reason), { kind: "quiet", title: `Redrive all letters of the reason ${reason}` }) : null;
      return h("li", null, badge(`${cut(reason, 60)} ${number(count)}`, "warn"), act);
    });
    return h(
      "div",
      { class: "view" },
      cards(card("Letters", number(told.count)), card("Sent back", number(told.done)), card("Not sent back", number(told.left), { tone: told.left ? "warn" : "good" })),
      counts.length ? h("section", { class: "panel" }, h("h2", null, `Reasons of the newest ${number(told.letters.length)}`), h("ul", { class: "redrive-counts" }, ...counts)) : null,
    );
  }

  letterTable() {
    /** @type {import("../core/table.js").Column<Letter>[]} */
    const columns = [
      { title: "Written", sort: (one) => one.timestamp_ms, cell: (one) => h("span", { class: "letter-age", title: utc(one.timestamp_ms) }, ago(one.timestamp_ms, Date.now())) },
      { title: "Reason", sort: (one) => one.letter.reason, cell: reasonOf },
      { title: "From", is_mono: true, sort: (one) => one.letter.origin.topic, cell: (one) => originOf(one) },
      { title: "Attempts", is_number: true, sort: (one) => one.letter.attempts, cell: (one) => number(one.letter.attempts) },
      { title: "Key", is_mono: true, cell: (one) => shown(one.key) },
      { title: "Value", is_mono: true, cell: (one) => shown(one.value) },
      { title: "Actions", is_action: true, cell: (one) => button("Look", () => void this.look(one), { kind: "quiet", title: `Look at letter ${keyOf(one)}` }) },
    ];
    if (canChange()) columns.unshift({ title: "Choose", is_action: true, cell: (one) => this.box(one) });
    return table({
      caption: "Letters, the newest first",
      columns,
      signal: this.signal,
      key: keyOf,
      search: (one) => [one.letter.reason, one.letter.error_text, one.letter.origin.topic, one.letter.group, one.key?.text, one.value?.text].join(" "),
      filter_label: "Filter letters",
      noun: "letter",
      row_class: (one) => (one.letter.is_done ? "letter-done" : null),
      empty: () => emptyState("This topic has no letters.", "All is well here, or retention has deleted them."),
    });
  }

  /** @param {Letter} one */
  box(one) {
    const key = keyOf(one);
    if (one.letter.is_done) return badge("sent back", "good");
    const made = h("input", { type: "checkbox", class: "check", "aria-label": `Choose letter ${key}`, checked: this.chosen.has(key) });
    made.addEventListener("change", () => {
      if (made.checked && this.chosen.size < CHOSEN_MAX) this.chosen.add(key);
      else this.chosen.delete(key);
      made.checked = this.chosen.has(key);
      this.some.disabled = this.chosen.size === 0;
      replace(this.some, this.chosen.size ? `Redrive ${counted(this.chosen.size, "letter")}` : "Redrive chosen");
    });
    return made;
  }

  places() {
    return [...this.chosen].map((key) => {
      const [partition = 0, offset = 0] = key.split("/").map(Number);
      return { partition, offset };
    });
  }

  /**
   * @param {{partition: number, offset: number}[] | null} chosen
   * @param {string | null} reason
   */
  async redrive(chosen, reason) {
    const begun = await redriveDialog(this.topic, { chosen, reasons: reason === null ? null : [reason] });
    if (begun === null) return;
    this.chosen.clear();
    this.some.disabled = true;
    replace(this.some, "Redrive chosen");
    this.progress.follow(begun);
  }

  /** @param {Letter} one */
  async look(one) {
    const act = (/** @type {() => void} */ close) => {
      if (!canChange() || one.letter.is_done) return null;
      const run = () => {
        close();
        void this.redrive([{ partition: one.partition, offset: one.offset }], null);
      };
      return h("div", { class: "form-actions" }, button("Redrive this letter", run, { kind: "main" }));
    };
    await openDialog(`Letter ${keyOf(one)}`, (close) => h("div", { class: "view" }, ...letterFacts(one), act(close)), { is_wide: true });
  }
}

/** @param {Letter} one */
function keyOf(one) {
  return `${one.partition}/${one.offset}`;
}

/** @param {Letter} one */
function reasonOf(one) {
  const more = one.letter.error_text && one.letter.error_text !== one.letter.reason ? h("span", { class: "about" }, ...text(cut(one.letter.error_text, 200))) : null;
  return h("span", { class: "letter-reason" }, h("strong", null, cut(one.letter.reason, 80)), more);
}

/** @param {Letter} one */
function originOf(one) {
  const { topic, partition, offset } = one.letter.origin;
  if (topic === null) return h("span", { class: "about" }, "not known");
  const place = partition === null ? "" : offset === null ? `/${partition}` : `/${partition}/${offset}`;
  const href = partition === null || offset === null ? link`/topics/${topic}/messages` : link`/topics/${topic}/messages/${partition}/${offset}`;
  return h("a", { href }, ...text(topic), place);
}

/** @param {Shown} value */
function shown(value) {
  return value === null ? h("span", { class: "about" }, "none") : cut(value.text.replace(/\s+/g, " "), VALUE_CHARACTERS);
}

/** @param {Letter} one */
function letterFacts(one) {
  const { letter } = one;
  const headers = one.headers.map(({ name, value }) => /** @type {[string, import("../core/dom.js").Child]} */ ([cut(name, 200), value === null ? "none" : cut(value.text, 500)]));
  return [
    facts([
      ["Reason", text(letter.error_type ?? letter.reason)],
      ["In full", text(letter.error_text ?? "–")],
      ["From", [originOf(one)]],
      ["Given up by", text([letter.group, `(${letter.convention})`].filter(Boolean).join(" "))],
      ["Attempts", number(letter.attempts)],
      ["Failed at", [moment(letter.failed_ms)]],
      ["Written at", [moment(one.timestamp_ms)]],
      ["Its way here", letter.way === null ? "the first time" : text(letter.way)],
      ["Size", bytes(one.size_bytes)],
    ]),
    h("h3", null, "Key"),
    h("pre", { class: "value", tabindex: "0" }, ...(one.key === null ? ["none"] : text(one.key.text, { lines: true }))),
    h("h3", null, "Value"),
    h("pre", { class: "value", tabindex: "0" }, ...(one.value === null ? ["none"] : text(one.value.text, { lines: true }))),
    one.value?.is_whole === false ? h("p", { class: "about" }, "Only the beginning is shown.") : null,
    h("h3", null, "Headers"),
    facts(headers),
  ];
}
