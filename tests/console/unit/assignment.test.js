/** The lag of the tasks of a streams group, from that of partitions. */

import assert from "node:assert/strict";
import test from "node:test";
import { taskLags } from "../../../src/hutong/console/pages/views/group_assignment.js";

/** @param {string} topic @param {number} partition @param {number | null} lag */
const row = (topic, partition, lag) => ({ topic, partition, lag, committed: null, begin: null, end: null, member_id: null });
const group = { name: "app", state: "stable", type: "streams", is_simple: false, assignor: null, coordinator: 1, members: [], lag: 0 };

test("a task has the lag of its partition of each topic", () => {
  const partitions = [row("lines", 0, 3), row("more", 0, 4), row("lines", 1, null), row("by-word", 0, 0), row("other", 0, 9)];
  const lags = taskLags({ ...group, partitions, sources: { 0: ["lines", "more"], 1: ["by-word"] } });
  assert.deepEqual([...lags], [["0/0", 7], ["1/0", 0]]);
  assert.equal(taskLags({ ...group, partitions }).size, 0);
});
