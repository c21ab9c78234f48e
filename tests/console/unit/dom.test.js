/** `h` on a document of a few lines: it must never make anything but elements, attributes and text. */
import assert from "node:assert/strict";
import { test } from "node:test";

class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, children: [], dataset: {}, listeners: {}, properties: {} });
    this.style = { setProperty: (name, value) => void (this.properties[name] = value) };
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  append(...children) {
    this.children.push(...children);
  }
  replaceChildren(...children) {
    this.children = children;
  }
  addEventListener(name, listener) {
    this.listeners[name] = listener;
  }
}
globalThis.document = { createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag) };
const { h, replace, svg } = await import("../../../src/hutong/console/pages/core/dom.js");

test("children are text, elements, or nothing", () => {
  const inner = h("b", null, "x");
  const element = h("p", null, "<img src=x onerror=alert(1)>", 5, null, undefined, false, ["a", inner]);
  assert.deepEqual(element.children, ["<img src=x onerror=alert(1)>", "5", "a", inner]);
});

test("attributes, data, styles and listeners", () => {
  const click = () => {};
  const element = h("input", { class: "x", hidden: true, disabled: false, title: null, value: "v", data: { key: "k" }, style: { width: "1px" }, on: { click } });
  assert.deepEqual(element.attributes, { class: "x", hidden: "" });
  assert.deepEqual([element.value, element.dataset, element.properties, element.listeners], ["v", { key: "k" }, { width: "1px" }, { click }]);
});

test("handlers as text and documents as text are refused", () => {
  for (const name of ["onclick", "onError", "srcdoc", "SRCDOC"]) assert.throws(() => h("p", { [name]: "alert(1)" }), TypeError);
});

test("links lead into this site or to http", () => {
  for (const href of ["/topics", "?x=1", "#a", "https://example.org", "HTTP://example.org"]) assert.equal(h("a", { href }).attributes.href, href);
  const others = ["javascript:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", "data:text/html,x", "//evil.example", "/\\evil.example", "topics", ""];
  for (const href of others) assert.throws(() => h("a", { href }), TypeError);
  assert.throws(() => svg("a", { "xlink:href": "javascript:alert(1)" }), TypeError);
});

test("replace takes all away that was there", () => {
  const element = h("p", null, "old");
  replace(element, "new", null, ["x"]);
  assert.deepEqual(element.children, ["new", "x"]);
  replace(element);
  assert.deepEqual(element.children, []);
});
