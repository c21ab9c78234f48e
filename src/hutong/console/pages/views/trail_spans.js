/**
 * The spans of a record's traces: messages, calls and handlers of all nodes, as items of the one time axis.
 *
 * Strategy: each trace that a hop names is asked for once, of the console's own node at once. The other nodes are asked
 * for all traces that wait, one question after the other, and each answer is shown when it comes. A bar shows when a
 * span began and how long it took, in the time of its whole trace. Names and attributes come from programs: they are
 * text, always.
 */

import { api } from "../core/api.js";
import { h } from "../core/dom.js";
import { duration } from "../core/format.js";
import { events } from "../core/live.js";
import { badge, moment, text } from "../core/parts.js";
import { inOrder } from "./trail_order.js";

/**
 * @typedef {{trace: string, id: string, parent: string | null, name: string, kind: string, begin_ms: number,
 *   duration_ms: number, error: string | null, attributes: [string, string][]}} Span
 */
/** @typedef {Span & {node: number | null}} NodeSpan */
/** @typedef {{node: number, missing?: string, is_traced?: boolean, spans?: Span[], truncated?: boolean}} NodeAnswer */

const TRACES_MAX = 20;
const SPANS_MAX = 500; // of one trace
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
    /** @type {Map<string, Map<string, NodeSpan>>} by trace and id */
    this.traces = new Map();
    /** @type {Map<number, string>} nodes that have not told, and why */
    this.missing = new Map();
    /** @type {Set<number>} nodes that keep none */
    this.untraced = new Set();
    /** @type {string[]} traces that the other nodes have not been asked for */
    this.waiting = [];
    this.is_asking = false;
    this.has_others = false;
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
    this.traces.set(trace, new Map());
    void this.load(trace).catch(() => {}); // a user without the right sees the log's part
  }

  /** @param {string} trace */
  async load(trace) {
    const told = await api.get("/api/trail/spans", { query: { trace }, signal: this.signal });
    this.has_others = told.others.length > 0;
    this.is_traced = told.is_traced;
    if (!told.is_traced && this.has_others) this.untraced.add(told.node);
    this.add(told.node, told);
    if (this.has_others) {
      this.waiting.push(trace);
      this.askOthers();
    }
  }

  /** Ask the other nodes for the traces that wait, unless a question is on its way: its end asks again. */
  askOthers() {
    if (this.is_asking || this.signal.aborted || !this.waiting.length) return;
    this.is_asking = true;
    const control = new AbortController();
    const stop = () => control.abort();
    this.signal.addEventListener("abort", stop, { once: true });
    const over = () => {
      this.signal.removeEventListener("abort", stop);
      stop();
      this.is_asking = false;
      this.askOthers();
    };
    const onNode = (/** @type {NodeAnswer} */ told) => {
      if (told.missing) this.missing.set(told.node, told.missing);
      else this.missing.delete(told.node);
      if (told.is_traced === false) this.untraced.add(told.node);
      this.add(told.node, told);
    };
    const path = `/api/trail/spans/others?${new URLSearchParams({ traces: this.waiting.splice(0).join() })}`;
    // A stream that has ended or broken would be opened again.
    events(path, { node: onNode, end: over }, control.signal, (now) => (now === "waiting" ? over() : undefined));
  }

  /**
   * @param {number | null} node
   * @param {{spans?: Span[], truncated?: boolean}} told
   */
  add(node, { spans = [], truncated = false }) {
    this.is_cut ||= truncated;
    for (const span of spans) {
      const known = this.traces.get(span.trace);
      if (known === undefined || known.has(span.id)) continue;
      if (known.size < SPANS_MAX) known.set(span.id, { ...span, node });
      else this.is_cut = true;
    }
    if (!this.signal.aborted) this.changed();
  }

  /** All of them in an order that can have been, with the bounds of their trace. */
  items() {
    return [...this.traces.values()].flatMap((trace) => {
      const placed = inOrder([...trace.values()]);
      const begin_ms = Math.min(...placed.map((one) => one.at_ms));
      const end_ms = Math.max(...placed.map((one) => one.at_ms + one.span.duration_ms));
      const around = { begin_ms, length_ms: end_ms - begin_ms, shows_node: this.has_others };
      return placed.map((one) => ({ ...one, ...around, within: trace.get(one.span.parent ?? "")?.name ?? null }));
    });
  }
}

/** @typedef {ReturnType<TrailSpans["items"]>[number]} SpanItem */

/**
 * @param {SpanItem} item
 * @param {string} later
 */
export function spanItem({ span, at_ms, begin_ms, length_ms, within, is_moved, shows_node }, later) {
  const took = `took ${duration(span.duration_ms)}`;
  const bar = h("span", { class: span.error === null ? "span-part" : "span-part span-part-bad" });
  const whole_ms = length_ms || 1;
  bar.style.insetInlineStart = `${(100 * (at_ms - begin_ms)) / whole_ms}%`;
  bar.style.inlineSize = `${(100 * span.duration_ms) / whole_ms}%`;
  const node = shows_node && span.node !== null ? [" ", badge(`node ${span.node}`)] : [];
  const facts = span.attributes.map(([name, value]) => h("div", null, h("dt", null, ...text(name)), h("dd", null, ...text(value))));
  return h(
    "li",
    { class: span.error === null ? "hop hop-span" : "hop hop-span hop-bad" },
    h("p", { class: "hop-when" }, moment(span.begin_ms), h("span", { class: "quiet" }, is_moved ? "after its parent, by another clock" : later)),
    h(
      "div",
      { class: "panel" },
      h("p", null, h("strong", { class: "mono" }, ...text(span.name)), " ", badge(KINDS[span.kind] ?? "done", span.error === null ? "plain" : "bad"), ...node, " ", h("span", { class: "quiet" }, took, ...(within === null ? [] : [" within ", ...text(within)]))),
      span.error === null ? null : h("p", null, "Failed: ", ...text(span.error)),
      h("div", { class: "span-bar", "aria-hidden": "true" }, bar),
      facts.length ? h("details", null, h("summary", null, "Attributes"), h("dl", { class: "span-facts" }, ...facts)) : null,
    ),
  );
}
