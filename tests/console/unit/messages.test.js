/** What a messages page asks for, and records as text that can be typed. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { askedOf, faultOf, isSearch, pageQuery, searchQuery } from "../../../src/hutong/console/pages/views/messages_asked.js";
import { headerLines, headersOf, typedOf } from "../../../src/hutong/console/pages/views/messages_typed.js";

const asked = (/** @type {string} */ query) => askedOf(new URLSearchParams(query));
const base64 = (/** @type {number[]} */ ...bytes) => Buffer.from(bytes).toString("base64");

test("a page begins where its address says", () => {
  assert.equal(pageQuery(asked("")).from, "newest");
  assert.deepEqual(pageQuery(asked("from=offset&offset=7&partitions=0,1")), { partitions: "0,1", key_form: "", value_form: "", from: "offset", offset: "7" });
  assert.equal(pageQuery(asked("from=time&time=2026-11-28T06:22:00Z")).time_ms, "1795846920000");
  assert.equal(pageQuery(asked("before=0:5&from=oldest")).before, "0:5");
});

test("a search goes backwards from the newest and forwards from a place", () => {
  assert.equal(isSearch(asked("")), false);
  assert.equal(isSearch(asked("path=$.a")), true);
  assert.equal(searchQuery(asked("q=x")).order, "newest");
  assert.deepEqual([searchQuery(asked("q=x&from=offset&offset=7")).order, searchQuery(asked("q=x&from=offset&offset=7")).offset_begin], ["oldest", "7"]);
});

test("what is wrong is a sentence", () => {
  assert.equal(faultOf(asked("")), null);
  assert.match(faultOf(asked("from=offset&offset=-1")) ?? "", /offset/);
  assert.match(faultOf(asked("from=time&time=never")) ?? "", /date/);
  assert.match(faultOf(asked("partitions=a")) ?? "", /Partitions/);
  assert.equal(faultOf(asked("partitions=0, 1")), null);
});

test("bytes that a field would change are typed as base64", () => {
  assert.deepEqual(typedOf(null), { text: "", form: "text" });
  assert.deepEqual(typedOf(base64(0xc3, 0xa9)), { text: "é", form: "text" });
  for (const bytes of [[0xff], [0x61, 0x0d, 0x0a], [0xed, 0xa0, 0x80]]) assert.equal(typedOf(base64(...bytes)).form, "base64");
});

test("headers are lines and come back as they were", () => {
  const lines = headerLines([["a", base64(0x78)], ["raw", base64(0xff)], ["none", null], ["spaced", base64(0x20, 0x78)], ["empty", ""]]);
  assert.equal(lines, "a: x\nraw:: /w==\nnone\nspaced:: IHg=\nempty: ");
  assert.deepEqual(headersOf(lines), {
    headers: [
      { name: "a", value: { text: "x", form: "text" } },
      { name: "raw", value: { text: "/w==", form: "base64" } },
      { name: "none", value: null },
      { name: "spaced", value: { text: "IHg=", form: "base64" } },
      { name: "empty", value: { text: "", form: "text" } },
    ],
    fault: null,
  });
  assert.match(headersOf(": x").fault ?? "", /name/);
});
