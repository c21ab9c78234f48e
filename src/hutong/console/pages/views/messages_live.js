/** Messages that keep coming: what a search finds, with its progress; and the live tail, with a pause. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { counted, number, percent, short } from "../core/format.js";
import { bind } from "../core/keys.js";
import { events } from "../core/live.js";
import { button, errorNote, note, text } from "../core/parts.js";
import { link, withQuery } from "../core/paths.js";
import { ROWS_MAX } from "./messages_table.js";

/** @typedef {import("./messages_table.js").MessagesTable} MessagesTable */
/** @typedef {import("./messages_record.js").Message} Message */
/**
 * @typedef {{offsets_passed: number, offsets_total: number, looked_at: number, bytes_read: number, matches: number,
 *   ended: string | null}} Progress
 */
/** @typedef {{seen: number, shown: number, seen_per_s: number, shown_per_s: number}} Figures */

const ENDS = /** @type {Record<string, string>} */ ({
  all: "Everything was looked at.",
  matches: "There may be more: narrow the search to see others.",
});
const HELD_MAX = 200;

/**
 * A search at work: its element has the progress, its matches go to the table.
 * @param {string} topic
 * @param {Record<string, string>} query
 * @param {MessagesTable} table
 * @param {AbortSignal} signal
 */
export function searching(topic, query, table, signal) {
  const control = new AbortController();
  signal.addEventListener("abort", () => control.abort(), { once: true });
  const bar = h("progress", { max: "1", "aria-label": "Searched" });
  const told = h("p", { class: "count", role: "status" }, "Searching …");
  const cancel = button("Cancel search", () => {
    control.abort();
    cancel.remove();
    replace(told, `${told.textContent} Cancelled.`);
  });
  const rest = h("div");
  const element = h("div", { class: "live-bar" }, bar, told, cancel, rest);
  const show = (/** @type {Progress} */ progress) => {
    const share = progress.offsets_total ? progress.offsets_passed / progress.offsets_total : 1;
    bar.value = share;
    replace(told, `${counted(progress.matches, "match", "matches")} in ${number(progress.looked_at)} records, ${percent(share)} of ${short(progress.offsets_total)}.`);
  };
  const end = () => {
    control.abort();
    cancel.remove();
  };
  /** @type {Message[]} */
  let found = [];
  const is_newest = query.order === "newest";
  const path = link`/api/topics/${topic}/messages/search`;
  const begin = () => events(
    withQuery(path, query),
    {
      matches: (data) => {
        found = sorted([...found, ...data.records], is_newest);
        table.show(found);
      },
      progress: show,
      ended: (progress) => {
        end();
        show(progress);
        told.append(` ${ENDS[progress.ended] ?? ""}`);
      },
      failed: (data) => {
        end();
        replace(rest, note("warn", ...text(data.message)));
      },
    },
    control.signal,
    (state) => {
      // The browser would begin the search anew; what was found stays.
      if (state !== "waiting" || control.signal.aborted) return;
      end();
      replace(rest, note("warn", "The search ended before it was done."));
    },
  );
  // A stream cannot say why it is refused; this question can.
  api.get(path, { query: { ...query, check: true }, signal: control.signal }).then(begin, (error) => {
    if (control.signal.aborted) return;
    end();
    replace(told);
    replace(rest, errorNote(error));
  });
  return element;
}

/**
 * @param {Message[]} messages
 * @param {boolean} is_newest
 */
function sorted(messages, is_newest) {
  const order = (/** @type {Message} */ one, /** @type {Message} */ other) =>
    one.timestamp_ms - other.timestamp_ms || one.partition - other.partition || one.offset - other.offset;
  return messages.sort((one, other) => (is_newest ? order(other, one) : order(one, other)));
}

/**
 * The live tail: new messages come in above the others.
 * @param {string} topic
 * @param {Record<string, string>} query
 * @param {MessagesTable} table
 * @param {AbortSignal} signal
 */
export function following(topic, query, table, signal) {
  const told = h("p", { class: "count", role: "status" }, "Waiting for records …");
  /** @type {Message[]} */
  let held = [];
  let held_count = 0;
  let is_paused = false;
  const pause = button("Pause", () => {
    is_paused = !is_paused;
    pause.setAttribute("aria-pressed", String(is_paused));
    replace(pause, is_paused ? "Go on" : "Pause");
    if (is_paused) return;
    table.add(held, { is_above: true });
    held = [];
    held_count = 0;
  });
  pause.setAttribute("aria-pressed", "false");
  bind("p", "Pause the live tail, or go on", () => pause.click(), { signal });
  let shown_ms = 0;
  const control = new AbortController();
  signal.addEventListener("abort", () => control.abort(), { once: true });
  events(
    withQuery(link`/api/topics/${topic}/messages/tail`, query),
    {
      records: (data) => {
        if (is_paused) {
          held = [...data.records, ...held].slice(0, HELD_MAX);
          held_count += data.records.length;
        } else table.add(data.records, { is_above: true });
        // A screen reader would not keep up with four a second.
        if (performance.now() - shown_ms < 1_000) return;
        shown_ms = performance.now();
        replace(told, figuresOf(data.figures), is_paused ? ` Paused: ${number(held_count)} wait.` : "");
      },
      failed: (data) => {
        control.abort(); // else the browser would begin anew, and fail again
        pause.remove();
        replace(told, ...text(data.message));
      },
    },
    control.signal,
    (state) => state === "waiting" && replace(told, "The connection broke; trying again …"),
  );
  const about = h("p", { class: "quiet" }, `The ${ROWS_MAX} newest rows are kept. `, h("kbd", null, "p"), " pauses.");
  return h("div", { class: "live-bar" }, h("span", { class: "live-dot", "aria-hidden": "true" }), told, pause, about);
}

/** @param {Figures} figures */
function figuresOf(figures) {
  const { seen_per_s, shown_per_s } = figures;
  if (seen_per_s > shown_per_s) return `Shown: ${number(shown_per_s)} of ${number(seen_per_s)} records/s, ${number(figures.shown)} of ${number(figures.seen)} in all.`;
  return `All shown: ${number(shown_per_s)} records/s, ${number(figures.shown)} in all.`;
}
