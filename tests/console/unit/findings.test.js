import assert from "node:assert/strict";
import test from "node:test";

import { byRule } from "../../../src/hutong/console/pages/views/overview_findings.js";

/** @param {string} alert @param {boolean} is_alert @param {string} sentence */
const finding = (alert, is_alert, sentence) => ({
  alert, is_alert, sentence, severity: /** @type {const} */ ("warning"), remedy: "", see: null, since_ms: null, more: 0,
});

test("findings of one rule are together, those that may pass apart, in the order in which they came", () => {
  const given = [finding("A", true, "1"), finding("B", true, "2"), finding("A", true, "3"), finding("A", false, "4")];
  const found = byRule(given).map((group) => group.map((one) => one.sentence));
  assert.deepEqual(found, [["1", "3"], ["2"], ["4"]]);
  assert.deepEqual(byRule([]), []);
});
