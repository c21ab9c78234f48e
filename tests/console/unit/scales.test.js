import assert from "node:assert/strict";
import { test } from "node:test";

import { nearest, ticks, timeTicks } from "../../../src/hutong/console/pages/core/scales.js";

test("ticks are round, and reach the maximum", () => {
  assert.deepEqual(ticks(97, 4), [0, 25, 50, 75, 100]);
  assert.deepEqual(ticks(100, 4), [0, 25, 50, 75, 100]);
  assert.deepEqual(ticks(0.3, 3), [0, 0.1, 0.2, 0.3]);
  for (const none of [0, -5, NaN]) assert.deepEqual(ticks(none, 4), [0, 1]);
});

test("moments are round, and few", () => {
  assert.deepEqual(timeTicks(1_000, 61_000, 4), [15_000, 30_000, 45_000, 60_000]);
  for (const span_ms of [1, 1e3, 1e6, 1e9, 1e12]) assert.ok(timeTicks(0, span_ms, 5).length <= 6);
});

test("the nearest of several", () => {
  assert.deepEqual([nearest([1, 5, 9], 6), nearest([1, 5, 9], -100), nearest([1, 5, 9], 100)], [5, 1, 9]);
});
