import assert from "node:assert/strict";
import { test } from "node:test";

import { link, match, withQuery } from "../../../src/hutong/console/pages/core/paths.js";

test("a pattern gives the names in a path, decoded", () => {
  assert.deepEqual(match("/topics/:name/:tab", "/topics/a%2Fb/settings"), { name: "a/b", tab: "settings" });
  assert.deepEqual(match("/", "/"), {});
  assert.deepEqual(match("/topics", "/topics/"), {});
});

test("other paths give nothing", () => {
  for (const path of ["/", "/topics", "/topics/a/b/c", "/groups/a/b"]) assert.equal(match("/topics/:name/:tab", path), null);
  assert.equal(match("/topics/:name", "/topics/%zz"), null);
});

test("a link leads back to the names that were put in", () => {
  for (const name of ["a.b-c_1", "a/b", "?x#y", "50%", "<img src=x>", "漢 字", "a\u0000b\u202e"]) {
    assert.deepEqual(match("/topics/:name", link`/topics/${name}`), { name });
  }
  assert.equal(link`/x/${"\ud800"}`, "/x/%EF%BF%BD");
});

test("empty values are left out of a query", () => {
  assert.equal(withQuery("/a", { b: null, c: undefined, d: "", e: 0, f: false, g: "x y" }), "/a?e=0&f=false&g=x+y");
  assert.equal(withQuery("/a", {}), "/a");
});
