/**
 * Keys of the whole page: one letter, or two one after the other (`g t`), never while the reader writes text.
 *
 * Strategy: one listener on the document and a list of bindings, which the help dialog shows. A view's bindings end
 * with its signal.
 */

/** @typedef {{keys: string, does: string, run: (event: KeyboardEvent) => void, group: string}} Binding */

const SEQUENCE_MS_MAX = 1_200;

/** @type {Set<Binding>} */
const bindings = new Set();
let before = "";
let before_ms = 0;

/**
 * Bind keys: `bind("g t", "Go to topics", run)`.
 * @param {string} keys
 * @param {string} does what the help shows; empty: not listed
 * @param {(event: KeyboardEvent) => void} run
 * @param {{signal?: AbortSignal, group?: string}} [options]
 */
export function bind(keys, does, run, options = {}) {
  const binding = { keys, does, run, group: options.group ?? "This page" };
  bindings.add(binding);
  options.signal?.addEventListener("abort", () => bindings.delete(binding), { once: true });
}

/** All bindings with a description, in the order in which they were made. */
export function bound() {
  return [...bindings].filter((binding) => binding.does !== "");
}

/** Begin to listen. */
export function listenForKeys() {
  document.addEventListener("keydown", pressed);
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || event.isComposing) return;
  if (writesText(event.target) || document.querySelector("dialog[open]")) return;
  const sequence = event.timeStamp - before_ms < SEQUENCE_MS_MAX ? `${before} ${event.key}` : event.key;
  const found = find(sequence) ?? find(event.key);
  before = event.key;
  before_ms = event.timeStamp;
  if (!found) return;
  before = "";
  event.preventDefault();
  found.run(event);
}

/** @param {string} keys */
function find(keys) {
  // The latest wins: a view's key hides the shell's.
  return [...bindings].reverse().find((binding) => binding.keys === keys);
}

/** @param {EventTarget | null} target */
function writesText(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button", "submit"].includes(target.type);
}
