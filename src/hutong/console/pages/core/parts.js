/**
 * Small parts that all pages share: headings, cards, badges, tabs, empty states, errors, values with hidden characters.
 */

import { ApiError } from "./api.js";
import { h, svg } from "./dom.js";
import { time, utc, visibleParts } from "./format.js";
import { ICONS } from "./icons.js";

/** @typedef {import("./dom.js").Child} Child */

/**
 * The head of a page: where it is, its name, and what can be done.
 * @param {{title: string, trail?: {label: string, href: string}[], about?: Child | Child[], actions?: Child[],
 *   is_name?: boolean}} options `is_name`: the title is a name of the cluster's, not a word of ours
 */
export function pageHead({ title, trail = [], about = null, actions = [], is_name = false }) {
  const steps = trail.map((step) => h("li", null, h("a", { href: step.href }, step.label)));
  const heading = h("h1", { class: is_name ? "mono" : null, tabindex: "-1" }, ...text(title));
  return h(
    "header",
    { class: "page-head" },
    h(
      "div",
      null,
      steps.length ? h("nav", { "aria-label": "Breadcrumb" }, h("ol", { class: "trail" }, ...steps)) : null,
      heading,
      about === null ? null : h("p", { class: "about" }, ...[about].flat()),
    ),
    actions.some(Boolean) ? h("div", { class: "actions" }, ...actions) : null,
  );
}

/**
 * A button with a verb.
 * @param {string} label
 * @param {() => void} click
 * @param {{kind?: "main" | "danger" | "quiet", icon?: keyof typeof ICONS, disabled?: boolean, title?: string}} [options]
 */
export function button(label, click, options = {}) {
  const kind = options.kind ? `button button-${options.kind}` : "button";
  const attributes = { type: "button", class: kind, disabled: options.disabled ?? false, title: options.title ?? null };
  return h("button", { ...attributes, on: { click } }, options.icon ? icon(options.icon) : null, label);
}

/**
 * A picture of lines; it says nothing that the text next to it does not.
 * @param {keyof typeof ICONS} name
 */
export function icon(name) {
  const lines = ICONS[name].map((d) => svg("path", { d }));
  return svg("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true", focusable: "false" }, ...lines);
}

/**
 * A figure in a card. `tone` colours it where it needs a look.
 * @param {string} label
 * @param {Child | Child[]} value
 * @param {{note?: Child, tone?: "good" | "warn" | "bad", href?: string}} [options]
 */
export function card(label, value, options = {}) {
  const inner = [
    h("dt", null, options.href ? h("a", { href: options.href }, label) : label),
    h("dd", { class: options.tone ? `tone-${options.tone}` : null }, ...[value].flat()),
    options.note ? h("dd", { class: "card-note" }, options.note) : null,
  ];
  return h("div", { class: "card" }, ...inner);
}

/** @param {...(Child)} cards */
export function cards(...cards) {
  return h("dl", { class: "cards" }, ...cards);
}

/**
 * A word on a coloured ground.
 * @param {string} label
 * @param {"good" | "warn" | "bad" | "plain" | "accent"} [tone]
 */
export function badge(label, tone = "plain") {
  return h("span", { class: `badge badge-${tone}` }, label);
}

/**
 * Links that look like tabs; the one of this page is marked.
 * @param {string} label of the whole, for screen readers
 * @param {{label: string, href: string, is_current: boolean}[]} items
 */
export function tabs(label, items) {
  const links = items.map((item) =>
    h("li", null, h("a", { href: item.href, "aria-current": item.is_current ? "page" : null }, item.label)),
  );
  return h("nav", { class: "tabs", "aria-label": label }, h("ul", null, ...links));
}

/**
 * What is shown where there is nothing: why, and what to do next.
 * @param {string} title
 * @param {Child | Child[]} [next]
 * @param {...Child} actions
 */
export function emptyState(title, next = null, ...actions) {
  return h(
    "div",
    { class: "empty" },
    h("p", { class: "empty-title" }, title),
    next === null ? null : h("p", null, ...[next].flat()),
    actions.some(Boolean) ? h("div", { class: "actions" }, ...actions) : null,
  );
}

/**
 * A page or part that could not be shown, with a way to try again.
 * @param {unknown} error
 * @param {() => void} [again]
 */
export function errorState(error, again) {
  return h("div", { role: "alert" }, errorNote(error), again ? button("Try again", again) : null);
}

/**
 * An error in a sentence, with the server's hint. Faults of our own are named as such.
 * @param {unknown} error
 */
export function errorNote(error) {
  if (!(error instanceof ApiError)) console.error(error);
  const message = error instanceof ApiError ? error.message : `The page met a fault of its own: ${error}`;
  const hint = error instanceof ApiError ? error.hint : null;
  return h("div", { class: "note note-bad" }, h("p", null, ...text(message)), hint ? h("p", { class: "note-hint" }, ...text(hint)) : null);
}

/**
 * A note: something to know, in a tone.
 * @param {"plain" | "warn" | "good" | "bad"} tone
 * @param {...Child} children
 */
export function note(tone, ...children) {
  return h("div", { class: `note note-${tone}` }, h("p", null, ...children));
}

/**
 * Shown while an answer is on its way; it appears only after a moment (styles/parts.css).
 * @param {string} what
 */
export function loading(what) {
  return h("p", { class: "loading", role: "status" }, `Loading ${what} …`);
}

/**
 * Text of the outside with its hidden characters shown: pieces for `h`.
 * @param {string} value
 * @param {{lines?: boolean}} [options]
 * @returns {Child[]}
 */
export function text(value, options = {}) {
  return visibleParts(value, options).map((part) => (part.is_symbol ? h("span", { class: "symbol" }, part.text) : part.text));
}

/**
 * A moment, with UTC as its title.
 * @param {number | null | undefined} time_ms
 */
export function moment(time_ms) {
  return h("time", { datetime: time_ms ? utc(time_ms) : null, title: time_ms ? utc(time_ms) : null, class: "mono" }, time(time_ms));
}

/**
 * Names and values in two columns.
 * @param {[string, Child | Child[]][]} pairs
 */
export function facts(pairs) {
  const rows = pairs.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, ...[value].flat())));
  return h("dl", { class: "facts" }, ...rows);
}

/**
 * A button that copies text.
 * @param {string} label
 * @param {() => string} value
 */
export function copyButton(label, value) {
  const made = button(label, async () => {
    await navigator.clipboard.writeText(value());
    made.lastChild?.replaceWith("Copied");
    setTimeout(() => made.lastChild?.replaceWith(label), 1_500);
  });
  return made;
}
