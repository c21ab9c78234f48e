import assert from "node:assert/strict";
import test from "node:test";

import { inOrder } from "../../../src/hutong/console/pages/views/trail_order.js";

/** @param {string} id @param {number} begin_ms @param {string | null} [parent] */
const span = (id, begin_ms, parent = null) => ({ id, parent, begin_ms });
/** @param {Parameters<typeof inOrder>[0]} spans */
const names = (spans) => inOrder(spans).map(({ span: { id }, is_moved }) => (is_moved ? `${id}*` : id));

test("times decide where they agree with parents", () => {
  assert.deepEqual(names([span("c", 30, "a"), span("b", 20, "a"), span("a", 10)]), ["a", "b", "c"]);
  assert.deepEqual(inOrder([]), []);
});

test("a span of a clock that is behind comes after its parent, with all that follows from it", () => {
  const given = [span("a", 100), span("b", 40, "a"), span("c", 45, "b"), span("d", 101, "c"), span("before", 99)];
  assert.deepEqual(names(given), ["before", "a", "b*", "c*", "d"]);
  assert.deepEqual(inOrder(given).map(({ at_ms }) => at_ms), [99, 100, 100, 100, 101]);
});

test("parents that are missing, or the span itself, or in a circle, end nothing", () => {
  assert.deepEqual(names([span("a", 2, "gone"), span("b", 1, "b")]), ["b", "a"]);
  assert.deepEqual(names([span("a", 3, "b"), span("b", 2, "c"), span("c", 1, "a")]), ["c", "b", "a"]);
});

test("a chain as long as a trace may be", () => {
  const chain = Array.from({ length: 20_000 }, (_, index) => span(`${index}`, -index, index ? `${index - 1}` : null));
  assert.deepEqual(inOrder(chain.reverse()).map(({ span: { id } }) => Number(id)), Array.from(chain, (_, index) => index));
});
