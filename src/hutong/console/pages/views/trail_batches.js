/** Batches of pipelines that have read records of a way, as items of its time axis. Names are text, always. */

import { h } from "../core/dom.js";
import { counted, duration, number } from "../core/format.js";
import { badge, moment, text } from "../core/parts.js";
import { link } from "../core/paths.js";

/** @typedef {{topic: string, partition: number, offset: number, is_certain: boolean}} ReadPlace */
/**
 * @typedef {{pipeline: string, query: string, batch_id: number, started_ms: number, duration_ms: number, row_count: number,
 *   to_topic: string | null, to_path: string | null, read: ReadPlace[]}} Batch
 */

const PLACES_SHOWN = 6;

/**
 * @param {Batch} batch
 * @param {string} later
 */
export function batchItem(batch, later) {
  const places = batch.read.slice(0, PLACES_SHOWN).flatMap((one) => [
    h("a", { class: "mono", href: link`/topics/${one.topic}/messages/${one.partition}/${one.offset}` }, ...text(one.topic), ` · partition ${one.partition} · offset ${number(one.offset)}`),
    " ",
  ]);
  const more = batch.read.length > PLACES_SHOWN ? `and ${number(batch.read.length - PLACES_SHOWN)} more` : null;
  const is_certain = batch.read.every((one) => one.is_certain);
  return h(
    "li",
    { class: "hop hop-span" },
    h("p", { class: "hop-when" }, moment(batch.started_ms), h("span", { class: "quiet" }, later)),
    h(
      "div",
      { class: "panel" },
      h("p", null, "Pipeline ", h("a", { class: "mono", href: "/pipelines" }, ...text(batch.pipeline)), ` · batch ${number(batch.batch_id)} `, badge("read"), " ", h("span", { class: "quiet" }, `took ${duration(batch.duration_ms)}, ${counted(batch.row_count, "row")}`)),
      h("p", null, "Read: ", ...places, more),
      h("p", null, "Written by its query ", h("span", { class: "mono" }, ...text(batch.query)), ...target(batch)),
      is_certain ? null : h("p", { class: "quiet" }, "It was the query's first batch, which may have begun after the record."),
    ),
  );
}

/** @param {Batch} batch */
function target({ to_topic, to_path }) {
  if (to_topic) return [" to topic ", h("a", { class: "mono", href: link`/topics/${to_topic}` }, ...text(to_topic))];
  return to_path ? [" to ", h("span", { class: "mono" }, ...text(to_path))] : [];
}
