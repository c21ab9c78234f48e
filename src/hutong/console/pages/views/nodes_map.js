/** The map of a topic: a row for each partition, a column for each broker, and what the broker is to the partition. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { button, errorNote, text } from "../core/parts.js";
import { setQuery } from "../core/router.js";
import { table } from "../core/table.js";

/** @typedef {import("./nodes.js").Place} Place */

/**
 * @param {string[]} names to choose from; others may be typed
 * @param {string} chosen
 * @param {AbortSignal} signal
 */
export function replicaMap(names, chosen, signal) {
  const place = h("div", { class: "view" });
  const list = h("datalist", { id: "map-topics" });
  const input = h("input", { class: "input mono", id: "map-topic", list: "map-topics", value: chosen, autocomplete: "off", spellcheck: "false" });
  const draw = async () => {
    const topic = input.value.trim();
    setQuery({ topic });
    if (!topic) return replace(place);
    try {
      const told = await api.get("/api/nodes/partitions", { query: { topic }, signal });
      replace(place, mapOf(topic, told.partitions, signal));
    } catch (error) {
      if (!signal.aborted) replace(place, h("div", { role: "alert" }, errorNote(error)));
    }
  };
  const form = h(
    "form",
    { class: "form-inline" },
    h("div", { class: "field" }, h("label", { class: "field-label", for: "map-topic" }, "Topic"), input, list),
    button("Show", () => void draw()),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void draw();
  });
  input.addEventListener("change", () => void draw());
  const update = (/** @type {string[]} */ now) => {
    if (list.childElementCount !== now.length) replace(list, ...now.map((name) => h("option", { value: name })));
  };
  update(names);
  if (chosen) void draw();
  const heading = h("h2", { id: "map" }, "Where a topic's replicas are");
  return { element: h("section", { class: "panel", "aria-labelledby": "map" }, heading, form, place), update };
}

/**
 * @param {string} topic
 * @param {Place[]} partitions
 * @param {AbortSignal} signal
 */
function mapOf(topic, partitions, signal) {
  const brokers = [...new Set(partitions.flatMap((one) => one.replicas))].sort((a, b) => a - b);
  /** @type {import("../core/table.js").Column<Place>[]} */
  const columns = [
    { title: "Partition", sort: (one) => one.partition, cell: (one) => String(one.partition) },
    ...brokers.map((broker) => ({ title: `Broker ${broker}`, sort: (/** @type {Place} */ one) => roleOf(one, broker), cell: (/** @type {Place} */ one) => cellOf(one, broker) })),
    { title: "In sync", is_number: true, sort: (one) => one.in_sync.length, cell: (one) => `${one.in_sync.length} of ${one.replicas.length}` },
  ];
  const list = table({ caption: `Replicas of ${topic}`, columns, rows: partitions, key: (one) => String(one.partition), signal, sort_by: 0 });
  const legend = h("p", { class: "quiet" }, "Partitions of ", h("span", { class: "mono" }, ...text(topic)), ": the ring marks the replica that should lead.");
  return h("div", { class: "view replica-map" }, legend, list.element);
}

/**
 * @param {Place} one
 * @param {number} broker
 */
function roleOf(one, broker) {
  if (one.leader === broker) return "leader";
  if (one.in_sync.includes(broker)) return "in sync";
  return one.replicas.includes(broker) ? "behind" : "";
}

/**
 * @param {Place} one
 * @param {number} broker
 */
function cellOf(one, broker) {
  const role = roleOf(one, broker);
  if (!role) return h("span", { class: "quiet" }, "–");
  const is_first = one.replicas[0] === broker;
  const kind = `replica replica-${role.replace(" ", "-")}${is_first ? " replica-first" : ""}`;
  return h("span", { class: kind, title: is_first ? "The first of its replicas, which should lead" : null }, role);
}
