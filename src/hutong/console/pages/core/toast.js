/**
 * Short notes of what was done, with room for one action such as Undo. Screen readers hear them.
 *
 * A note with an action or of an error stays until it is closed; others go by themselves.
 */

import { h } from "./dom.js";

const STAYS_MS = 6_000;
const NOTES_MAX = 4;

/** @type {HTMLElement | null} */
let region = null;

/** @returns {HTMLElement} the live region, to be put into the page once */
export function toastRegion() {
  region ??= h("div", { class: "toasts", role: "status", "aria-live": "polite", "aria-atomic": "false" });
  return region;
}

/**
 * Show a note.
 * @param {string} text
 * @param {{kind?: "done" | "error", action?: {label: string, run: () => void}}} [options]
 */
export function toast(text, options = {}) {
  const note = h("div", { class: `toast toast-${options.kind ?? "done"}` }, h("p", null, text));
  const close = () => note.remove();
  const { action } = options;
  if (action) {
    const run = () => {
      close();
      action.run();
    };
    note.append(h("button", { type: "button", class: "button button-quiet", on: { click: run } }, action.label));
  }
  note.append(h("button", { type: "button", class: "icon-button", "aria-label": "Close note", on: { click: close } }, "✕"));
  const shown = toastRegion();
  while (shown.children.length >= NOTES_MAX) shown.firstElementChild?.remove();
  shown.append(note);
  if (!action && options.kind !== "error") setTimeout(close, STAYS_MS);
}
