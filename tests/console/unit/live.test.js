import assert from "node:assert/strict";
import { test } from "node:test";

import { waitAfter } from "../../../src/hutong/console/pages/core/live.js";

test("a slow answer is asked for less often", () => {
  assert.deepEqual([waitAfter(5_000, 20), waitAfter(5_000, 500), waitAfter(5_000, 2_000)], [5_000, 5_000, 20_000]);
});
