/**
 * The question before a redrive: a dry run counts the letters by origin, each origin gets its target, then they are sent.
 *
 * Headers of letters are written by anybody, so nothing is sent to a topic that was not shown and left in its field.
 */

import { api } from "../core/api.js";
import { openDialog } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { form } from "../core/form.js";
import { counted, cut, number } from "../core/format.js";
import { events } from "../core/live.js";
import { button, errorNote, loading, note } from "../core/parts.js";
import { link } from "../core/paths.js";

/** @typedef {{name: string, count: number}} Count */
/**
 * @typedef {{number: number, topic: string, state: string, is_over: boolean, problem: string | null,
 *   is_truncated: boolean, read: number, done_before: number, remaining: number, sent: number, left: number,
 *   by_target: Count[], by_cause: Count[], by_origin: Count[], by_reason: Count[], begun_ms: number,
 *   wish: {is_dry: boolean, rate_per_s: number | null, chosen: number | null, reasons: string[] | null}}} Redrive
 */
/** @typedef {{chosen: {partition: number, offset: number}[] | null, reasons: string[] | null}} Selection */

const OTHERS = "*";

/**
 * Ask, and begin. Resolves to the redrive, or null where the reader has not begun one.
 * @param {string} topic
 * @param {Selection} selection
 * @returns {Promise<Redrive | null>}
 */
export async function redriveDialog(topic, selection) {
  /** @type {Redrive | null} */
  let begun = null;
  const ended = new AbortController();
  const body = h("div", { class: "view" }, loading("the counts of a dry run"));
  const path = link`/api/dead-letters/${topic}/redrives`;
  const opened = openDialog(titleOf(selection), (close) => {
    const begin = async (/** @type {unknown} */ wish) => {
      begun = await api.post(path, wish);
      close();
    };
    void dryRun(path, selection, body, ended.signal, (told) => replace(body, ...questions(told, selection, begin, close)));
    return body;
  }, { is_wide: true });
  await opened;
  ended.abort();
  return begun;
}

/** @param {Selection} selection */
function titleOf(selection) {
  if (selection.chosen) return `Redrive ${counted(selection.chosen.length, "letter")}`;
  return selection.reasons ? `Redrive the letters of ${cut(selection.reasons.join(", "), 60)}` : "Redrive all letters";
}

/**
 * @param {string} path
 * @param {Selection} selection
 * @param {Element} body
 * @param {AbortSignal} signal
 * @param {(told: Redrive) => void} then
 */
async function dryRun(path, selection, body, signal, then) {
  try {
    const told = /** @type {Redrive} */ (await api.post(`${path}/dry-run`, { ...selection, targets: [] }, { signal }));
    const one = new AbortController();
    signal.addEventListener("abort", () => {
      one.abort();
      void api.post(`/api/redrives/${told.number}/cancel`).catch(() => undefined);
    }, { once: true });
    events(`/api/redrives/${told.number}/progress`, {
      redrive: (/** @type {Redrive} */ now) => {
        if (!now.is_over) {
          replace(body, h("p", { role: "status" }, `Dry run: ${counted(now.read, "letter")} read …`));
          return;
        }
        one.abort();
        if (now.state === "failed") replace(body, note("warn", now.problem ?? "The dry run failed."));
        else then(now);
      },
    }, one.signal);
  } catch (error) {
    if (!signal.aborted) replace(body, errorNote(error));
  }
}

/**
 * @param {Redrive} told
 * @param {Selection} selection
 * @param {(wish: unknown) => Promise<void>} begin
 * @param {() => void} close
 */
function questions(told, selection, begin, close) {
  const origins = told.by_origin.filter((origin) => origin.name !== OTHERS);
  if (origins.length === 0) {
    return [note("plain", "There is no letter that was not sent back already."), h("div", { class: "form-actions" }, button("Close", close))];
  }
  const total = origins.reduce((sum, origin) => sum + origin.count, 0);
  /** @type {import("../core/form.js").Field[]} */
  const fields = origins.map((origin, index) => ({
    name: `target-${index}`,
    label: origin.name === "" ? `${counted(origin.count, "letter")} of no known origin go to` : `${counted(origin.count, "letter")} from ${origin.name} go to`,
    value: origin.name,
    is_mono: true,
    hint: origin.name === "" ? "Their headers do not say where they came from. Empty: they stay" : "Empty: they stay",
  }));
  fields.push({ name: "rate", label: "Letters a second", type: "number", min: 1, max: 1_000_000, hint: "Empty: as fast as they go" });
  const submit = (/** @type {import("../core/form.js").Values} */ values) => {
    const targets = origins.map((origin, index) => ({ origin: origin.name, target: values[`target-${index}`] })).filter((one) => one.target);
    return begin({ ...selection, targets, rate_per_s: values.rate });
  };
  return [
    h("p", null, `The dry run found ${counted(total, "letter")}${told.is_truncated ? ", and there are more" : ""}. `, told.done_before ? `${number(told.done_before)} were sent back before and are left out. ` : "", "Each is sent once, also if this is interrupted and begun again."),
    form({ fields, action: `Redrive ${counted(total, "letter")}`, cancel: close, submit }),
  ];
}
