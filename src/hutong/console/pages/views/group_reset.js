/**
 * Reset of a group's offsets: choose a place, look at the preview by partition, then change, with an undo.
 *
 * What is sent are the offsets of the preview, so nothing else happens than was shown.
 */

import { api, ApiError } from "../core/api.js";
import { openDialog } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { form } from "../core/form.js";
import { counted, number } from "../core/format.js";
import { button, errorNote, note, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { toast } from "../core/toast.js";

/** @typedef {import("./group.js").WholeGroup} WholeGroup */
/** @typedef {import("./group.js").Offset} Offset */
/**
 * @typedef {{topic: string, partition: number, before: number | null, after: number | null, begin: number, end: number,
 *   again: number, is_change: boolean, reason: string}} Row
 */
/** @typedef {{rows: Row[], changes: number, again: number, skipped: number}} Preview */

const MOVED = 40902;
const ROWS_SHOWN_MAX = 200;
const CHOICES = [
  { value: "earliest", label: "the beginning of the log" },
  { value: "latest", label: "the end of the log" },
  { value: "offset", label: "an offset" },
  { value: "time", label: "a time" },
  { value: "shift", label: "a number of records back or forward" },
  { value: "group", label: "where another group is" },
];

/**
 * Open the dialog; with `row` for one partition alone.
 * @param {WholeGroup} group
 * @param {Offset | null} row
 * @param {() => Promise<void>} changed
 */
export function resetOffsets(group, row, changed) {
  const title = row ? `Set the offset of ${row.topic}, partition ${row.partition}` : "Reset offsets";
  return openDialog(title, (close) => new Wizard(group, row, close, changed).element, { is_wide: true });
}

class Wizard {
  /**
   * @param {WholeGroup} group
   * @param {Offset | null} row
   * @param {() => void} close
   * @param {() => Promise<void>} changed
   */
  constructor(group, row, close, changed) {
    this.group = group;
    this.row = row;
    this.close = close;
    this.changed = changed;
    this.path = link`/api/groups/${group.name}/resets`;
    this.to = row ? "offset" : "earliest";
    this.fields = h("div");
    this.preview = h("div", { class: "view", role: "status" });
    const members = group.members.length;
    const warning = members ? note("warn", `The group has ${counted(members, "member")}. Stop its consumers first: until then the brokers refuse a reset.`) : null;
    this.element = h("div", { class: "view" }, warning, this.place(), this.fields, this.preview);
    this.show();
  }

  place() {
    const options = CHOICES.map((one) => h("option", { value: one.value }, one.label));
    const choice = h("select", { class: "input", id: "reset-to", value: this.to }, ...options);
    choice.value = this.to;
    choice.addEventListener("change", () => {
      this.to = choice.value;
      this.show();
    });
    return h("div", { class: "field" }, h("label", { class: "field-label", for: "reset-to" }, "Go to"), choice);
  }

  /** Draw the fields that belong to the place. */
  show() {
    replace(this.preview);
    const made = form({ fields: [...this.scope(), ...this.values()], action: "Preview reset", cancel: this.close, submit: (values) => this.ask(values) });
    replace(this.fields, made);
  }

  /** @returns {import("../core/form.js").Field[]} */
  scope() {
    if (this.row) return [];
    const topics = [...new Set(this.group.partitions.map((one) => one.topic))];
    const choices = [{ value: "", label: "all in which the group has offsets" }, ...topics.map((topic) => ({ value: topic, label: topic }))];
    return [{ name: "topic", label: "Topics", type: "select", choices, value: "" }];
  }

  /** @returns {import("../core/form.js").Field[]} */
  values() {
    const now = this.row?.committed ?? 0;
    if (this.to === "offset") return [{ name: "value", label: "Offset", type: "number", min: 0, required: true, value: now, hint: this.row ? `The log has ${number(this.row.begin)} to ${number(this.row.end)}` : "The same in every partition" }];
    if (this.to === "shift") return [{ name: "value", label: "Records", type: "number", required: true, value: -100, hint: "Negative: back, to be read again" }];
    if (this.to === "time") return [{ name: "time", label: "Time", required: true, value: new Date(Date.now() - 3_600_000).toISOString().slice(0, 19) + "Z", hint: "As 2026-11-28T06:00:00Z; without Z in your own time zone", check: (value) => (Number.isNaN(Date.parse(value)) ? "That is no time." : null) }];
    if (this.to === "group") return [{ name: "other", label: "Other group", required: true, is_mono: true }];
    return [];
  }

  /** @param {import("../core/form.js").Values} values */
  async ask(values) {
    const topics = this.row ? [this.row.topic] : values.topic ? [values.topic] : [];
    const value = this.to === "time" ? Date.parse(values.time) : (values.value ?? 0);
    const body = { to: this.to, value, group: values.other ?? null, topics, partition: this.row?.partition ?? null };
    const told = /** @type {Preview} */ (await api.post(`${this.path}/preview`, body));
    replace(this.preview, ...this.told(told));
    this.preview.scrollIntoView({ block: "nearest" });
  }

  /** @param {Preview} told */
  told(told) {
    const error = h("div", { role: "alert" });
    const act = button(`Reset ${counted(told.changes, "offset")}`, () => void this.run(told.rows, act, error), { kind: "danger", disabled: told.changes === 0 });
    return [
      h("h3", null, "Preview"),
      h("p", null, summaryOf(told)),
      previewTable(told.rows),
      error,
      h("div", { class: "form-actions" }, act),
    ];
  }

  /**
   * @param {Row[]} rows
   * @param {HTMLButtonElement} act
   * @param {Element} error
   */
  async run(rows, act, error) {
    act.disabled = true;
    const offsets = rows.filter((one) => one.is_change).map((one) => ({ topic: one.topic, partition: one.partition, offset: one.after }));
    try {
      const done = await api.post(this.path, { offsets });
      this.close();
      toast(`${counted(offsets.length, "offset")} of ${this.group.name} reset.`, { action: { label: "Undo", run: () => void this.undo(done.undo, false) } });
      await this.changed();
    } catch (problem) {
      replace(error, errorNote(problem));
      act.disabled = false;
    }
  }

  /**
   * @param {number} reset
   * @param {boolean} even_if_moved
   */
  async undo(reset, even_if_moved) {
    try {
      const told = await api.post(`${this.path}/${reset}/undo`, { even_if_moved });
      const left = told.left ? ` ${counted(told.left, "partition")} had no offset before and kept the new one.` : "";
      toast(`The reset is undone: ${counted(told.restored, "offset")} restored.${left}`);
      await this.changed();
    } catch (problem) {
      const moved = problem instanceof ApiError && problem.code === MOVED;
      const message = problem instanceof ApiError ? problem.message : String(problem);
      toast(message, moved ? { kind: "error", action: { label: "Undo all the same", run: () => void this.undo(reset, true) } } : { kind: "error" });
    }
  }
}

/** @param {Preview} told */
function summaryOf(told) {
  if (told.rows.length === 0) return "There are no partitions to reset.";
  if (told.changes === 0) return "Nothing would change.";
  const again = told.again ? `${counted(told.again, "record")} would be read again` : "";
  const skipped = told.skipped ? `${counted(told.skipped, "record")} would be skipped` : "";
  return `${[again, skipped].filter(Boolean).join(", ") || "No record would be read again or skipped"}.`;
}

/** @param {Row[]} rows */
function previewTable(rows) {
  const titles = ["Topic", "Partition", "Now", "After", "Change", "Note"];
  const body = rows.slice(0, ROWS_SHOWN_MAX).map((row) =>
    h(
      "tr",
      null,
      h("td", { class: "mono" }, ...text(row.topic)),
      h("td", { class: "number" }, number(row.partition)),
      h("td", { class: "number" }, number(row.before)),
      h("td", { class: "number" }, row.after === null ? "as it is" : number(row.after)),
      h("td", { class: "number" }, changeOf(row)),
      h("td", null, row.reason),
    ),
  );
  const head = h("tr", null, ...titles.map((title) => h("th", { scope: "col", class: ["Topic", "Note"].includes(title) ? null : "number" }, title)));
  const rest = rows.length - ROWS_SHOWN_MAX;
  return h(
    "div",
    { class: "table-scroll preview-table", tabindex: "0", role: "region", "aria-label": "Preview by partition" },
    h("table", null, h("caption", { class: "only-read" }, "Preview by partition"), h("thead", null, head), h("tbody", null, ...body)),
    rest > 0 ? h("p", { class: "about" }, `and ${counted(rest, "more partition")}`) : null,
  );
}

/** @param {Row} row */
function changeOf(row) {
  if (!row.is_change) return "none";
  if (row.before === null) return "new";
  return row.again > 0 ? `${number(row.again)} again` : `${number(-row.again)} skipped`;
}
