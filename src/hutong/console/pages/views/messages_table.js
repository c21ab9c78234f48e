/**
 * The table of messages: one row for each, which opens below itself.
 *
 * Keys: arrows go from row to row, Enter opens and closes. A bounded number of rows is kept.
 */

import { h, replace } from "../core/dom.js";
import { bytes, cut } from "../core/format.js";
import { moment, text } from "../core/parts.js";
import { openedRecord, permalink } from "./messages_record.js";

/** @typedef {import("./messages_record.js").Message} Message */
/** @typedef {import("./messages_record.js").Shown} Shown */

export const ROWS_MAX = 500;
const PREVIEW_CHARACTERS = 160;
const TITLES = ["Time", "Partition", "Offset", "Key", "Value"];
const KEY_AT = 3;
const BATCH_TITLE = "Compression";

export class MessagesTable {
  /**
   * @param {string} topic
   * @param {AbortSignal} signal
   * @param {() => {key_form: string, value_form: string}} forms
   */
  constructor(topic, signal, forms) {
    this.topic = topic;
    this.signal = signal;
    this.forms = forms;
    /** True where the compression of the records differs. */
    this.has_batches = false;
    this.body = h("tbody", { on: { keydown: (event) => this.pressed(event) } });
    this.head = h("tr", null, ...TITLES.map((title) => h("th", { scope: "col" }, title)));
    const table = h("table", { class: "messages" }, h("caption", { class: "only-read" }, "Messages"), h("thead", null, this.head), this.body);
    this.element = h("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Messages" }, table);
  }

  get count() {
    return this.body.querySelectorAll("tr.message").length;
  }

  /** @param {readonly Message[]} messages in the order in which they are shown */
  show(messages) {
    // What is the same for all of a page is said once, above the table.
    this.has_batches = messages.some((message) => message.batch) && commonCompression(messages) === null;
    if (this.has_batches) this.head.insertBefore(h("th", { scope: "col", title: "Of the batch that holds the record" }, BATCH_TITLE), this.head.children[KEY_AT] ?? null);
    replace(this.body, ...messages.map((message) => this.row(message)));
  }

  /**
   * Add messages at the end, or above all others.
   * @param {readonly Message[]} messages
   * @param {{is_above: boolean}} options
   */
  add(messages, { is_above }) {
    const rows = messages.map((message) => this.row(message));
    if (is_above) this.body.prepend(...rows);
    else this.body.append(...rows);
    if (is_above) this.drop();
  }

  /** Drop the oldest rows beyond the bound, with what is open below them. */
  drop() {
    let left = this.count - ROWS_MAX;
    while (left > 0 && this.body.lastElementChild) {
      if (this.body.lastElementChild.classList.contains("message")) left -= 1;
      this.body.lastElementChild.remove();
    }
  }

  /** @param {Message} message */
  row(message) {
    const place = `${message.partition}-${message.offset}`;
    const toggle = h("button", { type: "button", class: "row-toggle", "aria-expanded": "false", "aria-label": `Open record ${message.offset} of partition ${message.partition}` });
    toggle.addEventListener("click", () => this.toggle(row, toggle, message));
    const row = h(
      "tr",
      { class: "message", data: { place } },
      h("td", { class: "message-time" }, toggle, moment(message.timestamp_ms)),
      h("td", { class: "number" }, String(message.partition)),
      h("td", { class: "number" }, h("a", { href: permalink(this.topic, message) }, String(message.offset))),
      this.has_batches ? h("td", { class: "mono" }, message.batch?.compression ?? "–") : null,
      h("td", { class: "mono message-key" }, h("div", null, ...preview(message.key))),
      h("td", { class: "mono message-value" }, ...preview(message.value)),
    );
    row.addEventListener("click", (event) => {
      if (event.target instanceof Element && !event.target.closest("a, button") && !getSelection()?.toString()) toggle.click();
    });
    return row;
  }

  /**
   * @param {HTMLTableRowElement} row
   * @param {HTMLButtonElement} toggle
   * @param {Message} message
   */
  toggle(row, toggle, message) {
    const is_open = toggle.getAttribute("aria-expanded") === "true";
    toggle.setAttribute("aria-expanded", String(!is_open));
    if (is_open) {
      row.nextElementSibling?.remove();
      return;
    }
    const cell = h("td", { colspan: TITLES.length + Number(this.has_batches) }, openedRecord(this.topic, message, this.forms(), this.signal));
    row.after(h("tr", { class: "message-open" }, cell));
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const row = event.target instanceof Element ? event.target.closest("tr.message") : null;
    if (!step || !row) return;
    const rows = [...this.body.querySelectorAll("tr.message")];
    const next = rows[rows.indexOf(row) + step];
    const toggle = next?.querySelector(".row-toggle");
    if (!(toggle instanceof HTMLElement)) return;
    event.preventDefault();
    toggle.focus();
    toggle.scrollIntoView({ block: "nearest" });
  }
}

/**
 * The compression of all these records; null where it differs, or is not known of one.
 * @param {readonly Message[]} messages
 */
export function commonCompression(messages) {
  const first = messages[0]?.batch?.compression ?? null;
  return messages.every((message) => message.batch?.compression === first) ? first : null;
}

/** @param {Shown | null} shown */
function preview(shown) {
  if (shown === null) return [h("span", { class: "quiet" }, "none")];
  if (shown.size_bytes === 0) return [h("span", { class: "quiet" }, "empty")];
  const line = shown.form === "hex" ? hexOf(shown.text) : shown.text.replace(/\s+/g, " ");
  const is_cut = !shown.is_whole || line.length > PREVIEW_CHARACTERS;
  const size = is_cut ? h("span", { class: "quiet" }, ` ${bytes(shown.size_bytes)}`) : null;
  return [...text(line.slice(0, PREVIEW_CHARACTERS)), is_cut ? "…" : null, size];
}

/**
 * The bytes of a hex dump's rows, without offsets and characters.
 * @param {string} dump
 */
function hexOf(dump) {
  return cut(dump.split("\n").map((row) => row.slice(10, 58).trim()).join(" "), PREVIEW_CHARACTERS);
}
