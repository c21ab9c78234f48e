/**
 * Spans of one trace, in an order that can have been.
 *
 * Strategy: a span cannot begin before its parent. Clocks of nodes differ, so a span whose time says otherwise takes
 * its parent's place in time, and comes after it. Parents may be missing, twice there, or go round in a circle: what
 * nodes tell is no promise.
 */

/**
 * @template {{id: string, parent: string | null, begin_ms: number}} S
 * @typedef {{span: S, at_ms: number, depth: number, is_moved: boolean}} Placed
 */

/**
 * @template {{id: string, parent: string | null, begin_ms: number}} S
 * @param {readonly S[]} spans each id once
 * @returns {Placed<S>[]} in the order of time, and of depth at the same time
 */
export function inOrder(spans) {
  const by_id = new Map(spans.map((span) => [span.id, span]));
  /** @type {Map<string, Placed<S>>} */
  const placed = new Map();
  for (const span of spans) {
    // Up to one that has its place, and down again. A loop: a chain may be as long as the trace.
    /** @type {S[]} */
    const chain = [];
    const seen = new Set();
    /** @type {S | undefined} */
    let next = span;
    while (next !== undefined && !placed.has(next.id) && !seen.has(next.id)) {
      chain.push(next);
      seen.add(next.id);
      next = next.parent === null ? undefined : by_id.get(next.parent);
    }
    for (const each of chain.reverse()) placed.set(each.id, place(each, placed.get(each.parent ?? "")));
  }
  return [...placed.values()].sort((a, b) => a.at_ms - b.at_ms || a.depth - b.depth || a.span.begin_ms - b.span.begin_ms);
}

/**
 * @template {{id: string, parent: string | null, begin_ms: number}} S
 * @param {S} span
 * @param {Placed<S> | undefined} parent
 * @returns {Placed<S>}
 */
function place(span, parent) {
  const is_moved = parent !== undefined && span.begin_ms < parent.at_ms;
  return { span, at_ms: is_moved ? parent.at_ms : span.begin_ms, depth: parent === undefined ? 0 : parent.depth + 1, is_moved };
}
