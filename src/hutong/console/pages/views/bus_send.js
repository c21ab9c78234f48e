/** A message to an address of the bus, and what came of it. */

import { api } from "../core/api.js";
import { openDialog } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { duration } from "../core/format.js";
import { form } from "../core/form.js";
import { badge, note, text } from "../core/parts.js";

const KINDS = [
  { value: "request", label: "Request: await the answer" },
  { value: "send", label: "Send: one consumer gets it" },
  { value: "publish", label: "Publish: all consumers get it" },
];

/** @param {string} address */
export function sendMessage(address) {
  return openDialog("Send a message", (close) => {
    const outcome = h("div", { role: "status" });
    const fields = form({
      fields: [
        { name: "address", label: "Address", required: true, is_mono: true, value: address },
        { name: "kind", label: "Kind", type: "select", choices: KINDS, value: "request" },
        { name: "body", label: "Body", type: "textarea", is_mono: true, value: "{}", hint: "JSON", check: wrongJson },
        { name: "headers", label: "Headers", type: "textarea", rows: 2, is_mono: true, hint: "One a line, name: value", check: wrongHeaders },
      ],
      action: "Send",
      cancel: close,
      submit: async (values) => {
        replace(outcome);
        const message = { address: values.address, kind: values.kind, body: JSON.parse(values.body || "null"), headers: headersOf(values.headers) };
        replace(outcome, shownOutcome(values.kind, await api.post("/api/bus/messages", message)));
      },
    });
    return [fields, outcome];
  });
}

/**
 * @param {string} kind
 * @param {any} told
 */
function shownOutcome(kind, told) {
  const took = ` after ${duration(told.took_ms)}`;
  if (told.failure) {
    return h("div", { class: "note note-bad" }, h("p", null, badge(told.failure.type, "bad"), ` code ${told.failure.code}${took}`), h("p", null, ...text(told.failure.message)));
  }
  if (told.reply) {
    const headers = told.reply.headers.map((/** @type {[string, string]} */ [name, value]) => h("p", { class: "mono" }, ...text(`${name}: ${value}`)));
    return h("div", { class: "note note-good" }, h("p", null, badge("reply", "good"), took), ...headers, h("pre", { class: "value" }, ...text(told.reply.body, { lines: true })));
  }
  if (told.stored) return note("good", `Stored in partition ${told.stored.partition} at offset ${told.stored.offset}${took}.`);
  return note("good", kind === "publish" ? "Published." : "Sent. Without a consumer it is dropped.");
}

/** @param {string} value */
function wrongJson(value) {
  try {
    JSON.parse(value);
    return null;
  } catch (error) {
    return `This is no JSON: ${error instanceof Error ? error.message : error}`;
  }
}

/** @param {string} value */
function wrongHeaders(value) {
  return value.split("\n").every((line) => line.trim() === "" || line.includes(":")) ? null : "Write name: value on each line.";
}

/**
 * @param {string | null} value
 * @returns {[string, string][]}
 */
function headersOf(value) {
  const lines = (value ?? "").split("\n").filter((line) => line.trim() !== "");
  return lines.map((line) => [line.slice(0, line.indexOf(":")).trim(), line.slice(line.indexOf(":") + 1).trim()]);
}
