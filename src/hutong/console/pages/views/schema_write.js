/** The dialog that registers a schema: paste it, check it by the subject's level, then register it. */

import { api } from "../core/api.js";
import { openDialog } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { form } from "../core/form.js";
import { button, errorNote, note, text } from "../core/parts.js";
import { link } from "../core/paths.js";

/** @typedef {{subject: string, version: number}} Registered */
/** @typedef {{type: string, schema: string, references: import("./schema.js").Reference[], extra: unknown}} Begin */

const TYPES = ["AVRO", "JSON", "PROTOBUF"].map((type) => ({ value: type, label: type }));
const MESSAGES_SHOWN_MAX = 20;

/**
 * Resolves to the version that was registered, or null. The fields begin with `begin`, a schema that is there.
 * @param {string | null} subject null: it is asked for
 * @param {Begin} begin
 * @returns {Promise<Registered | null>}
 */
export async function registerSchema(subject, begin) {
  /** @type {Registered | null} */
  let made = null;
  const title = subject === null ? "Register schema" : "Register version";
  await openDialog(
    title,
    (close) => {
      const result = h("div", { class: "view", role: "status" });
      const done = (/** @type {Registered} */ registered) => {
        made = registered;
        close();
      };
      const check = async (/** @type {import("../core/form.js").Values} */ values) => {
        const body = { schema: values.schema, type: values.type, references: referencesIn(values.references ?? "") ?? [] };
        const named = subject ?? values.subject;
        replace(result);
        const told = await api.post(link`/api/schemas/${named}/versions/preview`, body);
        replace(result, ...(told.is_compatible ? [registration(named, body, done)] : troubles(told.messages)));
        result.scrollIntoView({ block: "nearest" });
      };
      const made_form = form({ fields: fieldsOf(subject, begin), action: "Check compatibility", cancel: close, submit: check });
      // What was checked is what is registered: another text is checked anew.
      made_form.addEventListener("input", () => replace(result));
      const left = begin.extra ? note("warn", "Metadata and rules of the latest version are not taken over.") : null;
      return h("div", { class: "view" }, left, made_form, result);
    },
    { is_wide: true },
  );
  return made;
}

/**
 * @param {string | null} subject
 * @param {Begin} begin
 * @returns {import("../core/form.js").Field[]}
 */
function fieldsOf(subject, begin) {
  /** @type {import("../core/form.js").Field[]} */
  const named = subject === null ? [{ name: "subject", label: "Subject", required: true, is_mono: true, hint: "As TOPIC-value or TOPIC-key, which serializers use" }] : [];
  return [
    ...named,
    { name: "type", label: "Type", type: "select", choices: TYPES, value: begin.type },
    { name: "schema", label: "Schema", type: "textarea", required: true, is_mono: true, rows: 14, value: begin.schema },
    { name: "references", label: "Imports", type: "textarea", is_mono: true, rows: 2, value: begin.references.map((one) => `${one.name} ${one.subject} ${one.version}`).join("\n"), hint: "One a line: NAME SUBJECT VERSION", check: (value) => (referencesIn(value) ? null : "Give NAME SUBJECT VERSION on each line.") },
  ];
}

/**
 * Imports in a text; null where a line is none.
 * @param {string} value
 */
export function referencesIn(value) {
  const lines = value.split("\n").map((line) => line.trim()).filter(Boolean);
  const found = lines.map((line) => /^(\S+)\s+(\S+)\s+(\d{1,9})$/.exec(line));
  if (found.includes(null)) return null;
  return found.map((match) => ({ name: match?.[1] ?? "", subject: match?.[2] ?? "", version: Number(match?.[3]) }));
}

/**
 * @param {string} subject
 * @param {Record<string, unknown>} body
 * @param {(registered: Registered) => void} done
 */
function registration(subject, body, done) {
  const error = h("div", { role: "alert" });
  const run = async () => {
    act.disabled = true;
    try {
      const told = await api.post(link`/api/schemas/${subject}/versions`, body);
      done({ subject, version: told.version });
    } catch (problem) {
      replace(error, errorNote(problem));
      act.disabled = false;
    }
  };
  const act = button("Register", () => void run(), { kind: "main" });
  return h("div", { class: "view" }, note("good", "The schema is compatible."), error, h("div", { class: "form-actions" }, act));
}

/** @param {string[]} messages */
function troubles(messages) {
  const shown = messages.slice(0, MESSAGES_SHOWN_MAX).map((message) => h("li", null, ...text(message)));
  return [note("bad", "The schema is not compatible. The registry would refuse it."), h("ul", { class: "schema-troubles" }, ...shown)];
}
