/** The difference between two versions of a subject, line by line. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { counted } from "../core/format.js";
import { button, errorNote, note, text } from "../core/parts.js";

/** @typedef {{kind: "same" | "removed" | "added", text: string}} Line */
/** @typedef {{lines: Line[], changed: number, is_cut: boolean, from: number, to: number}} Difference */

const SIGNS = { same: " ", removed: "−", added: "+" };
const SPOKEN = { same: "", removed: "removed: ", added: "added: " };

/**
 * @param {number[]} versions
 * @param {string} path
 * @param {AbortSignal} signal
 */
export function differencePanel(versions, path, signal) {
  if (versions.length < 2) return null;
  const place = h("div", { class: "view", role: "status" });
  const from = versionSelect("difference-from", versions, versions[versions.length - 2] ?? 1);
  const to = versionSelect("difference-to", versions, versions[versions.length - 1] ?? 1);
  const compare = async () => {
    try {
      const told = /** @type {Difference} */ (await api.get(`${path}/difference`, { query: { from: from.value, to: to.value }, signal }));
      replace(place, ...differenceOf(told));
    } catch (error) {
      if (!signal.aborted) replace(place, errorNote(error));
    }
  };
  const field = (/** @type {string} */ label, /** @type {HTMLSelectElement} */ choice) => h("div", { class: "field" }, h("label", { class: "field-label", for: choice.id }, label), choice);
  const fields = h("div", { class: "form-inline" }, field("From version", from), field("To version", to), button("Compare", () => void compare()));
  return h("section", { class: "panel", "aria-labelledby": "difference" }, h("h2", { id: "difference" }, "Difference of two versions"), fields, place);
}

/**
 * A choice of versions, the newest first.
 * @param {string} id
 * @param {number[]} versions
 * @param {number} chosen
 */
export function versionSelect(id, versions, chosen) {
  const options = [...versions].reverse().map((one) => h("option", { value: String(one), selected: one === chosen }, String(one)));
  return h("select", { class: "input", id }, ...options);
}

/** @param {Difference} told */
function differenceOf(told) {
  const name = `From version ${told.from} to version ${told.to}`;
  const lines = told.lines.map((line) =>
    h("span", { class: `schema-line schema-line-${line.kind}` }, h("span", { "aria-hidden": "true" }, `${SIGNS[line.kind]} `), h("span", { class: "only-read" }, SPOKEN[line.kind]), ...text(line.text), "\n"),
  );
  return [
    h("p", null, told.changed ? `${counted(told.changed, "line differs", "lines differ")}.` : "No line differs."),
    told.is_cut ? note("warn", "The schemas are longer than what is compared.") : null,
    h("pre", { class: "value schema-lines", tabindex: "0", role: "region", "aria-label": name }, ...lines),
  ];
}
