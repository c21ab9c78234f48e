/**
 * Forms from a list of fields: labels, hints, checks beside the field, and the server's refusal above the buttons.
 *
 * Strategy: `form` gives the element; on submit it checks each field, puts the focus on the first that is wrong, and
 * hands the values to `submit`, whose ApiError it shows. Numbers arrive as numbers, empty optional fields as null.
 */

import { h, replace } from "./dom.js";
import { errorNote } from "./parts.js";

/**
 * @typedef {{name: string, label: string, type?: "text" | "number" | "password" | "select" | "textarea" | "checkbox",
 *   value?: string | number | boolean | null, hint?: string, required?: boolean, min?: number, max?: number,
 *   choices?: {value: string, label: string}[], is_mono?: boolean, rows?: number, autocomplete?: string,
 *   suggestions?: string[], check?: (value: any) => string | null}} Field
 */
/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Control */
/** @typedef {Record<string, any>} Values */

let count = 0;

/**
 * @param {{fields: Field[], action: string, submit: (values: Values) => Promise<unknown> | unknown,
 *   cancel?: () => void, is_dangerous?: boolean, is_inline?: boolean}} options
 * @returns {HTMLFormElement}
 */
export function form(options) {
  const made = options.fields.map(fieldOf);
  const error = h("div", { role: "alert" });
  const kind = options.is_dangerous ? "button button-danger" : "button button-main";
  const act = h("button", { type: "submit", class: kind }, options.action);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    replace(error);
    const wrong = made.filter((one) => !one.isRight());
    if (wrong[0]) {
      wrong[0].control.focus();
      return;
    }
    act.disabled = true;
    try {
      await options.submit(Object.fromEntries(made.map((one) => [one.field.name, one.value()])));
    } catch (problem) {
      replace(error, errorNote(problem));
    } finally {
      act.disabled = false;
    }
  };
  const cancel = options.cancel;
  return h(
    "form",
    { class: options.is_inline ? "form form-inline" : "form", novalidate: true, on: { submit } },
    ...made.map((one) => one.element),
    error,
    h("div", { class: "form-actions" }, cancel && h("button", { type: "button", class: "button", on: { click: cancel } }, "Cancel"), act),
  );
}

/** @param {Field} field */
function fieldOf(field) {
  count += 1;
  const id = `field-${count}`;
  const control = controlOf(field, id);
  const problem = h("span", { class: "field-error", id: `${id}-error` });
  const hint = field.hint ? h("span", { class: "field-hint", id: `${id}-hint` }, field.hint) : null;
  control.setAttribute("aria-describedby", hint ? `${id}-hint ${id}-error` : `${id}-error`);
  const value = () => valueOf(field, control);
  const isRight = () => {
    const sentence = wrongness(field, control, value());
    replace(problem, sentence);
    control.toggleAttribute("aria-invalid", sentence !== null);
    if (sentence !== null) control.setAttribute("aria-invalid", "true");
    return sentence === null;
  };
  control.addEventListener("change", isRight);
  // An error goes while it is mended: gone with the click on the button, it would move the button away from the click.
  control.addEventListener("input", () => control.hasAttribute("aria-invalid") && isRight());
  const label = h("label", { class: "field-label", for: id }, field.label, field.required ? null : optional(field));
  const parts = field.type === "checkbox" ? [h("div", { class: "field-check" }, control, label), hint] : [label, control, hint];
  return { field, control, value, isRight, element: h("div", { class: "field" }, ...parts, problem, suggestions(field, id)) };
}

/** @param {Field} field */
function optional(field) {
  return field.type === "checkbox" || field.type === "select" ? null : h("span", { class: "field-optional" }, " optional");
}

/**
 * @param {Field} field
 * @param {string} id
 * @returns {Control}
 */
function controlOf(field, id) {
  const common = { id, name: field.name, class: field.is_mono ? "input mono" : "input", required: field.required ?? false };
  if (field.type === "select") {
    const options = (field.choices ?? []).map((one) => h("option", { value: one.value }, one.label));
    return h("select", { ...common, value: field.value ?? "" }, ...options);
  }
  if (field.type === "textarea") {
    return h("textarea", { ...common, rows: field.rows ?? 5, spellcheck: "false", value: field.value ?? "" });
  }
  if (field.type === "checkbox") return h("input", { ...common, class: "check", type: "checkbox", checked: field.value === true });
  return h("input", {
    ...common,
    type: field.type ?? "text",
    min: field.min,
    max: field.max,
    value: field.value ?? "",
    list: field.suggestions ? `${id}-list` : null,
    autocomplete: field.autocomplete ?? "off",
    spellcheck: "false",
  });
}

/**
 * @param {Field} field
 * @param {string} id
 */
function suggestions(field, id) {
  return field.suggestions ? h("datalist", { id: `${id}-list` }, ...field.suggestions.map((one) => h("option", { value: one }))) : null;
}

/**
 * @param {Field} field
 * @param {Control} control
 */
function valueOf(field, control) {
  if (field.type === "checkbox") return /** @type {HTMLInputElement} */ (control).checked;
  if (control.value === "" && !field.required) return null;
  return field.type === "number" ? Number(control.value) : control.value;
}

/**
 * @param {Field} field
 * @param {Control} control
 * @param {any} value
 * @returns {string | null} what is wrong, in a sentence
 */
function wrongness(field, control, value) {
  // A browser gives "" for text that is no number, and says so here.
  if (control.validity.badInput) return "Give a number.";
  if (field.required && control.value === "" && field.type !== "checkbox") return `${field.label} is needed.`;
  if (value === null) return null;
  if (field.type === "number") {
    if (field.min !== undefined && value < field.min) return `Give ${field.min} or more.`;
    if (field.max !== undefined && value > field.max) return `Give ${field.max} or less.`;
  }
  return field.check?.(value) ?? null;
}
