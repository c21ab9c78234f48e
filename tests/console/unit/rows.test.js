import assert from "node:assert/strict";
import { test } from "node:test";

import { filtered, inSight, sorted } from "../../../src/hutong/console/pages/core/rows.js";

test("names are sorted as people count", () => {
  assert.deepEqual(sorted(["t10", "t9", "T1"], (row) => row, false), ["T1", "t9", "t10"]);
});

test("what has no value comes last, in both directions", () => {
  const rows = [null, 2, undefined, 1, NaN, 3];
  assert.deepEqual(sorted(rows, (row) => row, false).slice(0, 3), [1, 2, 3]);
  assert.deepEqual(sorted(rows, (row) => row, true).slice(0, 3), [3, 2, 1]);
});

test("sorting leaves the rows that were given as they are, and equal ones in their order", () => {
  const rows = Object.freeze([{ n: 1, a: "x" }, { n: 0, a: "y" }, { n: 1, a: "z" }]);
  assert.deepEqual(sorted(rows, (row) => row.n, true).map((row) => row.a), ["x", "z", "y"]);
});

test("a filter wants each of its words, whatever the case", () => {
  const rows = ["orders.eu", "Orders.us", "users.eu"];
  assert.deepEqual(filtered(rows, (row) => row, "ORD eu"), ["orders.eu"]);
  assert.deepEqual(filtered(rows, (row) => row, "  "), rows);
  assert.deepEqual(filtered(rows, (row) => row, ".*"), []);
});

test("ten thousand rows draw some dozens", () => {
  const { first, last } = inSight({ scrolled_px: 180_000, height_px: 600, row_px: 36, count: 10_000 });
  assert.deepEqual([first, last], [4988, 5029]);
});

test("what is in sight stays within the rows that there are", () => {
  assert.deepEqual(inSight({ scrolled_px: 0, height_px: 600, row_px: 36, count: 3 }), { first: 0, last: 3 });
  assert.deepEqual(inSight({ scrolled_px: 1e9, height_px: 600, row_px: 36, count: 100 }), { first: 88, last: 100 });
  assert.deepEqual(inSight({ scrolled_px: 0, height_px: 0, row_px: 36, count: 0 }), { first: 0, last: 0 });
});
