/**
 * The spans of a record's traces: messages, calls and handlers of the node, as items of the one time axis.
 *
 * Strategy: each trace that a hop names is asked for once. A bar shows when a span began and how long it took, in the
 * time of its whole trace. Names and attributes come from programs: they are text, always.
 */

import { api } from "../core/api.js";
import { h } from "../core/dom.js";
import { duration } from "../core/format.js";
import { badge, moment, text } from "../core/parts.js";

/**
 * @typedef {{id: string, parent: string | null, name: string, kind: string, begin_ms: number, duration_ms: number,
 *   error: string | null, attributes: [string, string][]}} Span
 */

const TRACES_MAX = 20;
const KINDS = /** @type {Readonly<Record<string, string>>} */ ({
  producer: "sent", consumer: "handled", client: "called", server: "served", internal: "done",
});

export class TrailSpans {
  /**
   * @param {AbortSignal} signal
   * @param {() => void} changed is called when there are more
   */
  constructor(signal, changed) {
    this.signal = signal;
    this.changed = changed;
    /** @type {Map<string, Span[]>} by trace */
    this.traces = new Map();
    this.is_traced = true;
    this.is_cut = false;
  }

  /** @param {string | null} trace */
  ask(trace) {
    if (trace === null || this.traces.has(trace)) return;
    if (this.traces.size >= TRACES_MAX) {
      this.is_cut = true;
      return;
    }
    this.traces.set(trace, []);
    void this.load(trace).catch(() => {}); // a user without the right sees the log's part
  }

  /** @param {string} trace */
  async load(trace) {
    const told = await api.get("/api/trail/spans", { query: { trace }, signal: this.signal });
    this.is_traced = told.is_traced;
    this.is_cut ||= told.truncated;
    this.traces.set(trace, told.spans);
    if (!this.signal.aborted) this.changed();
  }

  /** All of them, with the bounds of their trace. */
  items() {
    return [...this.traces.values()].flatMap((spans) => {
      const begin_ms = Math.min(...spans.map((span) => span.begin_ms));
      const end_ms = Math.max(...spans.map((span) => span.begin_ms + span.duration_ms));
      const names = new Map(spans.map((span) => [span.id, span.name]));
      return spans.map((span) => ({ span, begin_ms, length_ms: end_ms - begin_ms, within: names.get(span.parent ?? "") ?? null }));
    });
  }
}

/** @typedef {ReturnType<TrailSpans["items"]>[number]} SpanItem */

/**
 * @param {SpanItem} item
 * @param {string} later
 */
export function spanItem({ span, begin_ms, length_ms, within }, later) {
  const took = `took ${duration(span.duration_ms)}`;
  const bar = h("span", { class: span.error === null ? "span-part" : "span-part span-part-bad" });
  const whole_ms = length_ms || 1;
  bar.style.insetInlineStart = `${(100 * (span.begin_ms - begin_ms)) / whole_ms}%`;
  bar.style.inlineSize = `${(100 * span.duration_ms) / whole_ms}%`;
  const facts = span.attributes.map(([name, value]) => h("div", null, h("dt", null, ...text(name)), h("dd", null, ...text(value))));
  return h(
    "li",
    { class: span.error === null ? "hop hop-span" : "hop hop-span hop-bad" },
    h("p", { class: "hop-when" }, moment(span.begin_ms), h("span", { class: "quiet" }, later)),
    h(
      "div",
      { class: "panel" },
      h("p", null, h("strong", { class: "mono" }, ...text(span.name)), " ", badge(KINDS[span.kind] ?? "done", span.error === null ? "plain" : "bad"), " ", h("span", { class: "quiet" }, took, ...(within === null ? [] : [" within ", ...text(within)]))),
      span.error === null ? null : h("p", null, "Failed: ", ...text(span.error)),
      h("div", { class: "span-bar", "aria-hidden": "true" }, bar),
      facts.length ? h("details", null, h("summary", null, "Attributes"), h("dl", { class: "span-facts" }, ...facts)) : null,
    ),
  );
}
