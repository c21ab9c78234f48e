import assert from "node:assert/strict";
import { test } from "node:test";

import { events, waitAfter } from "../../../src/hutong/console/pages/core/live.js";

test("a slow answer is asked for less often", () => {
  assert.deepEqual([waitAfter(5_000, 20), waitAfter(5_000, 500), waitAfter(5_000, 2_000)], [5_000, 5_000, 20_000]);
});

test("a view that gives a broken stream up gets no other one", async () => {
  let opened = 0;
  class Broken extends EventTarget {
    static CLOSED = 2;
    readyState = 0;
    constructor() {
      super();
      opened += 1;
      queueMicrotask(() => this.dispatchEvent(new Event("error")));
    }
    close() {
      this.readyState = Broken.CLOSED;
    }
  }
  const [timers, control] = [/** @type {unknown[]} */ ([]), new AbortController()];
  const given = { EventSource: Broken, setTimeout: (/** @type {unknown} */ run) => timers.push(run), fetch: async () => { throw new Error("asked"); } };
  const before = Object.fromEntries(Object.keys(given).map((name) => [name, Reflect.get(globalThis, name)]));
  Object.assign(globalThis, given);
  try {
    const states = await new Promise((resolve) => {
      /** @type {string[]} */
      const seen = [];
      events("/api/x", {}, control.signal, (now) => {
        seen.push(now);
        if (now !== "waiting") return;
        control.abort();
        queueMicrotask(() => resolve(seen));
      });
    });
    assert.deepEqual(states, ["connecting", "waiting"]);
    assert.deepEqual([opened, timers.length], [1, 0]);
  } finally {
    Object.assign(globalThis, before);
  }
});
