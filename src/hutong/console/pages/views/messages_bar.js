/** The bar above a topic's messages: where to begin, what to look for, and how bytes are shown. */

import { h, replace } from "../core/dom.js";
import { bind } from "../core/keys.js";
import { faultOf } from "./messages_asked.js";

/** @typedef {import("./messages_asked.js").Asked} Asked */

const STARTS = [
  ["newest", "Newest"],
  ["oldest", "Oldest"],
  ["offset", "Offset"],
  ["time", "Time"],
];
const PLACES = [
  ["anywhere", "anywhere"],
  ["value", "in values"],
  ["key", "in keys"],
  ["headers", "in headers"],
];
export const FORMS = [
  ["", "Automatic"],
  ["text", "Text"],
  ["json", "JSON"],
  ["schema", "By schema"],
  ["messagepack", "MessagePack"],
  ["hex", "Hex"],
];

/**
 * @param {Asked} asked
 * @param {AbortSignal} signal
 * @param {(asked: Asked) => void} show
 */
export function messagesBar(asked, signal, show) {
  const from = select("From", STARTS, asked.from || "newest");
  const offset = input("Offset", { type: "text", inputmode: "numeric", value: asked.offset, class: "input mono bar-number" });
  const time = input("Time", { type: "datetime-local", step: "1", value: asked.time });
  const partitions = input("Partitions", { type: "text", placeholder: "all", value: asked.partitions, class: "input mono bar-number" });
  const words = input("Search for", { type: "search", placeholder: "text", value: asked.q, "aria-keyshortcuts": "/" });
  const place = select("Where", PLACES, asked.in || "anywhere");
  const path = input("JSON path", { type: "text", placeholder: "$.order.total > 100", value: asked.path, class: "input mono" });
  const regex = h("input", { type: "checkbox", class: "check", checked: asked.regex === "yes" });
  const problem = h("p", { class: "field-error", role: "alert" });
  const showPlace = () => {
    offset.element.hidden = from.control.value !== "offset";
    time.element.hidden = from.control.value !== "time";
  };
  from.control.addEventListener("change", showPlace);
  showPlace();
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = {
      ...asked,
      from: from.control.value,
      offset: offset.control.value.trim(),
      time: time.control.value,
      partitions: partitions.control.value.trim(),
      q: words.control.value,
      in: place.control.value,
      regex: regex.checked ? "yes" : "",
      path: path.control.value.trim(),
      before: "",
      after: "",
      live: "",
    };
    const fault = faultOf(wanted);
    replace(problem, fault);
    if (fault === null) show(wanted);
  };
  bind("/", "Search", () => words.control.select(), { signal });
  return h(
    "form",
    { class: "messages-bar", role: "search", "aria-label": "Messages to show", novalidate: true, on: { submit } },
    from.element,
    offset.element,
    time.element,
    partitions.element,
    h("div", { class: "bar-words" }, words.element, place.element),
    h("label", { class: "field-check bar-check", title: "RE2's syntax" }, regex, "Regular expression"),
    path.element,
    h("button", { type: "submit", class: "button button-main" }, "Show"),
    problem,
  );
}

/**
 * Selects for the form of keys and of values.
 * @param {{key_form: string, value_form: string}} asked
 * @param {(name: "key_form" | "value_form", form: string) => void} change
 */
export function formSelects(asked, change) {
  const key = select("Key as", FORMS, asked.key_form);
  const value = select("Value as", FORMS, asked.value_form);
  key.control.addEventListener("change", () => change("key_form", key.control.value));
  value.control.addEventListener("change", () => change("value_form", value.control.value));
  return [key.element, value.element];
}

/**
 * @param {string} label
 * @param {string[][]} choices
 * @param {string} value
 */
function select(label, choices, value) {
  const options = choices.map(([name, told]) => h("option", { value: name }, told));
  const control = h("select", { class: "input", value }, ...options);
  return { control, element: h("label", { class: "bar-field" }, h("span", null, label), control) };
}

/**
 * @param {string} label
 * @param {import("../core/dom.js").Props} attributes
 */
function input(label, attributes) {
  const control = h("input", { class: "input", autocomplete: "off", spellcheck: "false", ...attributes });
  return { control, element: h("label", { class: "bar-field" }, h("span", null, label), control) };
}
