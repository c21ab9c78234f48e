/**
 * Questions that need an answer before anything goes on: the browser's own modal dialog.
 *
 * Strategy: a dialog runs its action itself, stays open and shows the error if that fails, and resolves once it closes.
 * A dangerous action may ask for a name to be typed.
 */

import { h, replace } from "./dom.js";
import { errorNote } from "./parts.js";

/** @typedef {import("./dom.js").Child} Child */
/**
 * @typedef {{title: string, body?: Child | Child[], action: string, is_dangerous?: boolean, typed_name?: string,
 *   is_wide?: boolean, run: () => Promise<unknown> | unknown}} Question
 */

let count = 0;

/**
 * Open a dialog with content of its own. `fill` gets the function that closes it.
 * @param {string} title
 * @param {(close: () => void) => Child | Child[]} fill
 * @param {{is_wide?: boolean}} [options]
 * @returns {Promise<void>} once it is closed
 */
export function openDialog(title, fill, options = {}) {
  count += 1;
  const id = `dialog-${count}`;
  const dialog = h("dialog", { class: options.is_wide ? "dialog dialog-wide" : "dialog", "aria-labelledby": id });
  const close = () => dialog.close();
  const heading = h("header", null, h("h2", { id }, title), closeButton(close));
  dialog.append(heading, h("div", { class: "dialog-body" }, fill(close)));
  // A click on the backdrop has the dialog itself as its target.
  dialog.addEventListener("pointerdown", (event) => {
    if (event.target === dialog) close();
  });
  document.body.append(dialog);
  dialog.showModal();
  // The first field rather than the button that closes.
  const first = dialog.querySelector(".dialog-body :is(input, select, textarea)") ?? dialog.querySelector(".dialog-body button");
  if (first instanceof HTMLElement) first.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve();
    });
  });
}

/**
 * Ask before an action, and run it. Resolves to true if it was done.
 * @param {Question} question
 * @returns {Promise<boolean>}
 */
export async function confirm(question) {
  let is_done = false;
  await openDialog(
    question.title,
    (close) => {
      const done = () => {
        is_done = true;
        close();
      };
      return questionForm(question, close, done);
    },
    { is_wide: question.is_wide ?? false },
  );
  return is_done;
}

/**
 * @param {Question} question
 * @param {() => void} close
 * @param {() => void} done
 */
function questionForm(question, close, done) {
  const kind = question.is_dangerous ? "button button-danger" : "button button-main";
  const wanted = question.typed_name;
  const act = h("button", { type: "submit", class: kind, disabled: wanted !== undefined }, question.action);
  const error = h("div", { role: "alert" });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    act.disabled = true;
    replace(error);
    try {
      await question.run();
      done();
    } catch (problem) {
      replace(error, errorNote(problem));
      act.disabled = false;
    }
  };
  const cancel = h("button", { type: "button", class: "button", on: { click: close } }, "Cancel");
  return h(
    "form",
    { class: "form", on: { submit } },
    ...[question.body ?? null].flat(),
    wanted === undefined ? null : nameField(wanted, act),
    error,
    h("div", { class: "form-actions" }, cancel, act),
  );
}

/**
 * @param {string} wanted
 * @param {HTMLButtonElement} act
 */
function nameField(wanted, act) {
  const input = h("input", { type: "text", class: "input mono", autocomplete: "off", spellcheck: "false" });
  input.addEventListener("input", () => {
    act.disabled = input.value !== wanted;
  });
  return h("label", { class: "field" }, h("span", { class: "field-label" }, "Type ", h("strong", { class: "mono" }, wanted), " to confirm"), input);
}

/** @param {() => void} close */
function closeButton(close) {
  return h("button", { type: "button", class: "icon-button", "aria-label": "Close", on: { click: close } }, "✕");
}
