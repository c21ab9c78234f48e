/** A live tap: the messages that pass at an address, newest first. */

import { h, replace } from "../core/dom.js";
import { counted, number, timeOfDay } from "../core/format.js";
import { events } from "../core/live.js";
import { badge, button, text } from "../core/parts.js";

const ROWS_MAX = 200;

/** @typedef {{direction: string, address: string, kind: string, body: string, is_cut: boolean, headers: [string, string][], reply_address: string | null}} Tapped */

/**
 * @param {string} pattern of the page's address: a tap that is open from the start
 * @param {AbortSignal} signal
 * @param {(pattern: string | null) => void} changed
 */
export function tapPanel(pattern, signal, changed) {
  const input = h("input", { type: "search", class: "input mono", id: "tap-address", placeholder: "shop.*", autocomplete: "off", spellcheck: "false" });
  const label = h("label", { for: "tap-address", class: "field-label" }, "Tap an address; * at the end stands for the rest");
  const act = h("button", { type: "submit", class: "button" }, "Tap");
  const opened = h("div");
  /** @type {AbortController | null} */
  let running = null;
  const close = () => {
    running?.abort();
    running = null;
    replace(opened);
    changed(null);
  };
  const open = (/** @type {string} */ wanted) => {
    running?.abort();
    const control = new AbortController();
    running = control;
    signal.addEventListener("abort", () => control.abort(), { once: true });
    input.value = wanted;
    changed(wanted);
    replace(opened, liveMessages(wanted, control.signal, close));
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (input.value.trim()) open(input.value.trim());
  };
  const element = h("section", { class: "panel", "aria-label": "Tap" }, h("form", { class: "form form-inline", on: { submit } }, h("div", { class: "field" }, label, input), act), opened);
  if (pattern) open(pattern);
  return { element, open };
}

/**
 * @param {string} pattern
 * @param {AbortSignal} signal
 * @param {() => void} close
 */
function liveMessages(pattern, signal, close) {
  const rows = h("tbody");
  const state = h("p", { class: "count", role: "status" }, "Connecting …");
  let seen_total = 0;
  let shown_total = 0;
  let is_paused = false;
  const pause = button("Pause", () => {
    is_paused = !is_paused;
    replace(pause, is_paused ? "Go on" : "Pause");
  });
  const show = (/** @type {{messages: Tapped[], seen_total: number}} */ told) => {
    seen_total = told.seen_total;
    if (!is_paused) {
      shown_total += told.messages.length;
      rows.prepend(...told.messages.map(row).reverse());
      while (rows.childElementCount > ROWS_MAX) rows.lastElementChild?.remove();
    }
    const share = shown_total < seen_total ? ` ${number(shown_total)} of them were shown.` : "";
    replace(state, `${counted(seen_total, "message")} seen at ${pattern}.${share}`);
  };
  events(`/api/bus/tap?address=${encodeURIComponent(pattern)}`, { messages: show }, signal, (now) => {
    if (now === "waiting") replace(state, "The connection is lost; trying again …");
    else if (now === "live" && seen_total === 0) replace(state, `Listening at ${pattern}. Nothing has passed yet.`);
  });
  const head = h("tr", null, ...["Time", "Way", "Address", "Kind", "Message"].map((title) => h("th", { scope: "col" }, title)));
  const list = h("table", null, h("caption", { class: "only-read" }, "Messages that passed"), h("thead", null, head), rows);
  const bar = h("div", { class: "toolbar" }, state, h("span", { class: "space" }), pause, button("Close tap", close));
  return h("div", { class: "data" }, bar, h("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Messages that passed" }, list));
}

/** @param {Tapped} message */
function row(message) {
  const headers = message.headers.map(([name, value]) => `${name}: ${value}`).join(", ");
  const body = message.is_cut ? `${message.body} …` : message.body;
  const way = message.direction === "out" ? badge("sent", "accent") : badge("received", "good");
  return h(
    "tr",
    null,
    h("td", { class: "mono" }, timeOfDay(Date.now())),
    h("td", null, way),
    h("td", { class: "mono" }, ...text(message.address)),
    h("td", null, message.reply_address ? "request" : message.kind),
    h("td", { class: "mono" }, headers ? h("div", null, ...text(headers)) : null, ...text(body)),
  );
}
