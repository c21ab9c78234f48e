import assert from "node:assert/strict";
import { test } from "node:test";

import * as format from "../../../src/hutong/console/pages/core/format.js";

test("numbers have separators, and a dash where there is none", () => {
  assert.equal(format.number(1234567), "1,234,567");
  for (const none of [null, undefined, NaN, Infinity]) assert.equal(format.number(none), "–");
});

test("sizes have one decimal of the unit that fits", () => {
  assert.deepEqual([0, 1023, 1024, 1536, 5 * 2 ** 30, 2 ** 60].map(format.bytes), ["0 B", "1,023 B", "1 KiB", "1.5 KiB", "5 GiB", "1,024 PiB"]);
});

test("rates lose their decimals as they grow", () => {
  assert.deepEqual([0, 0.01, 0.26, 9.96, 10.4, 12345.6].map(format.rate), ["0/s", "< 0.1/s", "0.3/s", "10/s", "10/s", "12,346/s"]);
});

test("short numbers keep three digits or so", () => {
  assert.deepEqual([0, 9999, 12_345, 999_949, 999_950, 3.4e6, 4.8e9].map(format.short), ["0", "9,999", "12.3 k", "999.9 k", "1 M", "3.4 M", "4.8 G"]);
});

test("lengths of time have two units", () => {
  assert.deepEqual([0, 999, 1_000, 61_000, 7_500_000, 90_000_000, -61_000].map(format.duration), ["0 ms", "999 ms", "1 s", "1 min 1 s", "2 h 5 min", "1 d 1 h", "-1 min 1 s"]);
});

test("moments before 1970 or beyond the calendar are none", () => {
  for (const none of [-1, 9e15, null]) assert.equal(format.time(none), "–");
  assert.match(format.time(1_700_000_000_123), /^2023-11-1[345] \d\d:\d\d:\d\d\.123$/);
  assert.equal(format.utc(0), "1970-01-01T00:00:00.000Z");
});

test("a moment by its distance", () => {
  assert.deepEqual([1_000, 9_500, 11_000, 70_000].map((at) => format.ago(at, 10_000)), ["9 s ago", "now", "in 1 s", "in 1 min"]);
});

test("nothing hidden stays hidden", () => {
  assert.equal(format.visible("a\u0000b\u001bc\u007f"), "a␀b␛c␡");
  assert.equal(format.visible("\u202eabc\u200b\ufeff\u{e0041}\u0085"), "⟨U+202E⟩abc⟨U+200B⟩⟨U+FEFF⟩⟨U+E0041⟩⟨U+0085⟩");
  assert.equal(format.visible("\ud800x\udc00 😀 é 漢"), "⟨U+D800⟩x⟨U+DC00⟩ 😀 é 漢");
});

test("lines stay lines where a value is preformatted", () => {
  assert.equal(format.visible("a\n\tb\r", { lines: true }), "a\n\tb␍");
  assert.equal(format.visible("a\nb"), "a␊b");
});

test("parts say which of them stand for something hidden", () => {
  assert.deepEqual(format.visibleParts("a\u0000b"), [
    { text: "a", is_symbol: false },
    { text: "␀", is_symbol: true },
    { text: "b", is_symbol: false },
  ]);
  assert.deepEqual(format.visibleParts(""), []);
});

test("a cut text says that it was cut", () => {
  assert.equal(format.cut("abc", 3), "abc");
  assert.equal(format.cut("abcd", 3), "abc…");
});

test("one thing is one, several are many", () => {
  assert.deepEqual([0, 1, 2000].map((count) => format.counted(count, "topic")), ["0 topics", "1 topic", "2,000 topics"]);
  assert.equal(format.counted(2, "address", "addresses"), "2 addresses");
});
