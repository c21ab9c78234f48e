/** One record: its key, value and headers in the form that is wanted, where it is from, and what can be done with it. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { bytes, counted, number } from "../core/format.js";
import { badge, button, copyButton, errorNote, facts, loading, moment, note, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { canChange } from "../core/session.js";
import { FORMS } from "./messages_bar.js";
import { editRecord, resendRecord } from "./messages_write.js";

/**
 * @typedef {{form: string, why: string, text: string, size_bytes: number, is_whole: boolean, notes: string[],
 *   schema: {id: number, type: string, name: string} | null}} Shown
 */
/**
 * @typedef {{partition: number, offset: number, timestamp_ms: number, timestamp_type: string | null,
 *   leader_epoch: number | null, size_bytes: number, is_masked: boolean, key: Shown | null, value: Shown | null,
 *   headers: {name: string, value: Shown | null}[], headers_count: number, batch?: Batch | null,
 *   batches_missing?: string[]}} Message a record of a search or of the live tail has no batch
 */
/**
 * @typedef {{compression: string, size_bytes: number, records_count: number, first_offset: number,
 *   last_offset: number, is_transactional: boolean}} Batch
 */

const MORE_CHARS = 1 << 20;
const TIME_TYPES = /** @type {Record<string, string>} */ ({ create: "given by its producer", append: "given by the broker" });

/**
 * A record that is opened: it loads, and shows itself.
 * @param {string} topic
 * @param {{partition: number, offset: number}} place
 * @param {{key_form: string, value_form: string}} forms
 * @param {AbortSignal} signal
 * @returns {HTMLElement}
 */
export function openedRecord(topic, place, forms, signal) {
  const element = h("div", { class: "record" }, loading("the record"));
  const asked = { ...forms, chars: 0 };
  const load = async () => {
    const path = link`/api/topics/${topic}/messages/${place.partition}/${place.offset}`;
    const query = { key_form: asked.key_form, value_form: asked.value_form, chars: asked.chars || null };
    try {
      const message = /** @type {Message} */ (await api.get(path, { query, signal }));
      replace(element, recordParts(topic, message, asked, load));
    } catch (error) {
      if (!signal.aborted) replace(element, h("div", { role: "alert" }, errorNote(error)));
    }
  };
  void load();
  return element;
}

/**
 * @param {string} topic
 * @param {Message} message
 * @param {{key_form: string, value_form: string, chars: number}} asked
 * @param {() => Promise<void>} load
 */
function recordParts(topic, message, asked, load) {
  const more = () => {
    asked.chars = MORE_CHARS;
    return load();
  };
  const chosen = (/** @type {"key_form" | "value_form"} */ name) => (/** @type {string} */ form) => {
    asked[name] = form;
    return load();
  };
  const place = `record ${message.offset} of partition ${message.partition}`;
  return [
    payload("Value", place, message.value, asked.value_form, chosen("value_form"), more, "none: a tombstone, which deletes its key from a compacted topic"),
    payload("Key", place, message.key, asked.key_form, chosen("key_form"), more, "none"),
    headersOf(message, place),
    h("section", null, h("h2", null, "Where it is from"), facts(origin(topic, message))),
    actions(topic, message),
  ];
}

/**
 * @param {string} name
 * @param {string} place of the record, for screen readers
 * @param {Shown | null} shown
 * @param {string} form
 * @param {(form: string) => Promise<void>} choose
 * @param {() => Promise<void>} more
 * @param {string} missing
 */
function payload(name, place, shown, form, choose, more, missing) {
  if (shown === null) return h("section", null, h("h2", null, name), h("p", { class: "quiet" }, missing));
  const options = FORMS.map(([value, told]) => h("option", { value }, told));
  const select = h("select", { class: "input", value: form, "aria-label": `Form of the ${name.toLowerCase()} of ${place}` }, ...options);
  select.addEventListener("change", () => void choose(select.value));
  const schema = shown.schema ? `${shown.schema.name || shown.schema.type} (schema ${shown.schema.id})` : null;
  const about = h("span", { class: "quiet" }, ` ${bytes(shown.size_bytes)} · ${shown.why}`);
  const head = h("div", { class: "record-head" }, h("h2", null, name), badge(schema ?? shown.form, "accent"), about, select, copyButton("Copy", () => shown.text));
  const rest = shown.is_whole ? null : partNote(shown, more);
  const notes = shown.notes.map((each) => note("warn", ...text(each)));
  const body = shown.size_bytes === 0 ? h("p", { class: "quiet" }, "empty") : h("pre", { class: "value", tabindex: "0", role: "region", "aria-label": `${name} of ${place}` }, ...text(shown.text, { lines: true }));
  return h("section", null, head, ...notes, body, rest);
}

/**
 * @param {Shown} shown
 * @param {() => Promise<void>} more
 */
function partNote(shown, more) {
  if (shown.text.length >= MORE_CHARS) return note("plain", `The first ${bytes(MORE_CHARS)} are shown.`);
  return h("div", { class: "record-more" }, h("span", { class: "quiet" }, `The first ${number(shown.text.length)} characters are shown. `), button("Show more", () => void more()));
}

/**
 * @param {Message} message
 * @param {string} place
 */
function headersOf(message, place) {
  if (!message.headers.length) return null;
  const rows = message.headers.map((each) =>
    h("tr", null, h("th", { scope: "row", class: "mono" }, ...text(each.name)), h("td", { class: "mono" }, ...(each.value ? text(each.value.text) : [h("span", { class: "quiet" }, "none")]))),
  );
  const left = message.headers_count - message.headers.length;
  return h(
    "section",
    null,
    h("h2", null, "Headers"),
    h("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": `Headers of ${place}` }, h("table", null, h("caption", { class: "only-read" }, "Headers"), h("thead", null, h("tr", null, h("th", { scope: "col" }, "Name"), h("th", { scope: "col" }, "Value"))), h("tbody", null, ...rows))),
    left > 0 ? h("p", { class: "quiet" }, `and ${number(left)} more`) : null,
  );
}

/**
 * @param {string} topic
 * @param {Message} message
 * @returns {[string, import("../core/dom.js").Child | import("../core/dom.js").Child[]][]}
 */
function origin(topic, message) {
  const time_type = TIME_TYPES[message.timestamp_type ?? ""];
  /** @type {[string, string][]} */
  const masked = [["Masked", "parts of it are hidden by a rule of this console"]];
  return [
    ["Topic", text(topic)],
    ["Partition", number(message.partition)],
    ["Offset", String(message.offset)],
    ["Time", message.timestamp_ms < 0 ? "none" : [moment(message.timestamp_ms), time_type ? h("span", { class: "quiet" }, ` ${time_type}`) : null]],
    ["Leader epoch", number(message.leader_epoch)],
    ["Size", bytes(message.size_bytes)],
    ...batchFacts(message),
    ...(message.is_masked ? masked : []),
  ];
}

/**
 * @param {Message} message
 * @returns {[string, import("../core/dom.js").Child | import("../core/dom.js").Child[]][]}
 */
function batchFacts({ batch, batches_missing }) {
  if (!batch) return [["Compression", h("span", { class: "quiet" }, ["not known.", ...(batches_missing ?? [])].join(" "))]];
  const place = batch.records_count === 1 ? "this record alone" : `${counted(batch.records_count, "record")}, offsets ${batch.first_offset} to ${batch.last_offset}`;
  const transaction = batch.is_transactional ? ", written in a transaction" : "";
  return [
    ["Compression", h("span", { class: "mono" }, batch.compression)],
    ["Batch", [bytes(batch.size_bytes), h("span", { class: "quiet" }, ` for ${place}${transaction}`)]],
  ];
}

/**
 * The address of one record.
 * @param {string} topic
 * @param {{partition: number, offset: number}} place
 */
export function permalink(topic, place) {
  return link`/topics/${topic}/messages/${place.partition}/${place.offset}`;
}

/**
 * @param {string} topic
 * @param {Message} message
 */
function actions(topic, message) {
  const made = [copyButton("Copy link", () => location.origin + permalink(topic, message))];
  if (canChange()) {
    made.push(button("Send again", () => void resendRecord(topic, message)));
    made.push(button("Edit and send", () => void editRecord(topic, message)));
  }
  return h("div", { class: "actions" }, ...made);
}
