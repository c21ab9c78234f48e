/** Texts that people type: numbers of brokers, imports of schemas. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { numbersIn } from "../../../src/hutong/console/pages/views/nodes_move.js";
import { referencesIn } from "../../../src/hutong/console/pages/views/schema_write.js";

test("brokers are numbers with commas between them", () => {
  assert.deepEqual(numbersIn("3"), [3]);
  assert.deepEqual(numbersIn(" 1, 2 ,10"), [1, 2, 10]);
  for (const wrong of ["", "1,", "1;2", "-1", "1.5", "x", "1e3", "9".repeat(30), "١"]) assert.equal(numbersIn(wrong), null, wrong);
});

test("imports are one a line", () => {
  assert.deepEqual(referencesIn(""), []);
  assert.deepEqual(referencesIn("a.proto  users-value 3\n\n b :.eu:b 1 \r\n"), [
    { name: "a.proto", subject: "users-value", version: 3 },
    { name: "b", subject: ":.eu:b", version: 1 },
  ]);
  for (const wrong of ["a", "a b", "a b c", "a b 1 2", "a b -1", `a b ${"9".repeat(30)}`]) assert.equal(referencesIn(wrong), null, wrong);
});
