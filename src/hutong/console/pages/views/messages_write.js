/** Dialogs that write records: produce one, send one again as it is or edited, copy a range to another topic. */

import { api } from "../core/api.js";
import { confirm, openDialog } from "../core/dialog.js";
import { h } from "../core/dom.js";
import { form } from "../core/form.js";
import { counted, number } from "../core/format.js";
import { text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { toast } from "../core/toast.js";
import { headerLines, headersOf, typedOf } from "./messages_typed.js";

/** @typedef {{partition: number, offset: number}} Place */
/** @typedef {import("./messages_typed.js").Raw} Raw */

const FORMS = [
  { value: "text", label: "Text" },
  { value: "json", label: "JSON (checked)" },
  { value: "hex", label: "Hex" },
  { value: "base64", label: "Base64" },
];

/**
 * Ask for a record and produce it. Resolves once the dialog is closed.
 * @param {string} topic
 * @param {Raw | null} [from] the record to begin with
 * @param {string} [target]
 */
export function produceRecord(topic, from = null, target = topic) {
  const key = typedOf(from?.key ?? null);
  const value = typedOf(from?.value ?? null);
  /** @type {import("../core/form.js").Field[]} */
  const fields = [
    { name: "target", label: "Topic", value: target, required: true, is_mono: true },
    { name: "key", label: "Key", value: key.text, is_mono: true, hint: "Empty: no key. The same key goes to the same partition" },
    { name: "key_form", label: "The key is typed as", type: "select", value: key.form, choices: FORMS },
    { name: "value", label: "Value", type: "textarea", rows: 8, value: value.text, is_mono: true },
    { name: "is_tombstone", label: "No value: a tombstone", type: "checkbox", value: from !== null && from.value === null, hint: "It deletes its key from a compacted topic" },
    { name: "value_form", label: "The value is typed as", type: "select", value: value.form, choices: FORMS },
    { name: "headers", label: "Headers", type: "textarea", rows: 3, value: headerLines(from?.headers ?? []), is_mono: true, hint: "One a line: name: value; name:: base64; a name alone has no value", check: (lines) => headersOf(lines).fault },
    { name: "partition", label: "Partition", type: "number", min: 0, hint: "Empty: chosen by the key" },
  ];
  return openDialog(
    from ? "Edit and send" : "Produce a record",
    (close) =>
      form({
        fields,
        action: "Produce",
        cancel: close,
        submit: async (values) => {
          const body = {
            key: values.key === null ? null : { text: values.key, form: values.key_form },
            value: values.is_tombstone ? null : { text: values.value ?? "", form: values.value_form },
            headers: headersOf(values.headers ?? "").headers,
            partition: values.partition,
          };
          written(await api.post(link`/api/topics/${values.target}/messages`, body), "Produced");
          close();
        },
      }),
    { is_wide: true },
  );
}

/**
 * Open the dialog with a record's own bytes.
 * @param {string} topic
 * @param {Place} place
 */
export async function editRecord(topic, place) {
  try {
    const told = await api.get(link`/api/topics/${topic}/messages/${place.partition}/${place.offset}`, { query: { raw: true } });
    await produceRecord(topic, told.raw);
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), { kind: "error" });
  }
}

/**
 * Send a record again, byte by byte.
 * @param {string} topic
 * @param {Place} place
 */
export function resendRecord(topic, place) {
  const path = link`/api/topics/${topic}/messages/${place.partition}/${place.offset}/resend`;
  return openDialog("Send again", (close) => [
    h("p", { class: "about dialog-about" }, `Record ${place.offset} of partition ${place.partition} is sent once more as it is: the same key, value and headers, with the time of now.`),
    form({
      fields: [{ name: "target", label: "To the topic", value: topic, required: true, is_mono: true }],
      action: "Send again",
      cancel: close,
      submit: async ({ target }) => {
        written(await api.post(path, { target }), "Sent");
        close();
      },
    }),
  ]);
}

/**
 * Ask what to copy and where to, show how much that is, and copy.
 * @param {string} topic
 * @param {Record<string, number>} begins by partition
 * @param {Record<string, number>} ends
 */
export function copyRecords(topic, begins, ends) {
  const path = link`/api/topics/${topic}/messages/copy`;
  /** @type {import("../core/form.js").Field[]} */
  const fields = [
    { name: "target", label: "To the topic", required: true, is_mono: true },
    { name: "partition", label: "Partition", type: "number", min: 0, hint: "Empty: all that the page shows" },
    { name: "begin", label: "From offset", type: "number", min: 0, hint: "Empty: the first that is there" },
    { name: "end", label: "To offset, not included", type: "number", min: 0, hint: "Empty: up to the end" },
    { name: "keeps_partitions", label: "Keep the partition of each record", type: "checkbox" },
    { name: "keeps_times", label: "Keep the time of each record", type: "checkbox", value: true },
  ];
  return openDialog("Copy records", (close) =>
    form({
      fields,
      action: "Preview",
      cancel: close,
      submit: async (values) => {
        const wanted = values.partition === null ? Object.keys(ends) : [String(values.partition)];
        const spans = wanted.map((each) => ({ partition: Number(each), begin: values.begin ?? begins[each] ?? 0, end: values.end ?? ends[each] ?? Number.MAX_SAFE_INTEGER }));
        const body = { target: values.target, spans, keeps_partitions: values.keeps_partitions, keeps_times: values.keeps_times };
        const told = await api.post(`${path}/preview`, body);
        close();
        await confirmCopy(path, topic, body, told);
      },
    }),
  );
}

/**
 * @param {string} path
 * @param {string} topic
 * @param {{target: string, spans: unknown[]}} body
 * @param {{records: number, records_max: number, partitions: {partition: number, begin: number, end: number}[]}} told
 */
function confirmCopy(path, topic, body, told) {
  const rows = told.partitions.map((each) => h("li", null, `Partition ${each.partition}: offsets ${number(each.begin)} to ${number(each.end - 1)}`));
  const too_many = told.records > told.records_max ? h("p", { class: "tone-warn" }, `One copy takes ${number(told.records_max)}: choose fewer.`) : null;
  return confirm({
    title: `Copy up to ${counted(told.records, "record")}`,
    body: [h("p", null, "From ", h("strong", { class: "mono" }, ...text(topic)), " to ", h("strong", { class: "mono" }, ...text(body.target)), "."), h("ul", { class: "quiet" }, ...rows), too_many],
    action: "Copy records",
    run: async () => {
      const done = await api.post(path, body);
      const rest = done.failed ? ` Then it ended: ${done.failed}` : "";
      toast(`${counted(done.copied, "record")} copied to ${body.target}.${rest}`, done.failed ? { kind: "error" } : {});
    },
  });
}

/**
 * @param {{topic: string, partition: number, offset: number}} told
 * @param {string} did
 */
function written(told, did) {
  toast(`${did}: offset ${told.offset} of partition ${told.partition} in ${told.topic}.`);
}
