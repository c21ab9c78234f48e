/** One topic: its partitions, where they are and what they keep; partitions are added here, and the topic deleted. */

import { api } from "../core/api.js";
import { confirm, openDialog } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { form } from "../core/form.js";
import { bytes, counted, number, percent, short } from "../core/format.js";
import { repeat } from "../core/live.js";
import { badge, button, card, cards, errorState, loading, note, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { goTo } from "../core/router.js";
import { canChange } from "../core/session.js";
import { table } from "../core/table.js";
import { toast } from "../core/toast.js";
import { topicHead } from "./topic_head.js";

/**
 * @typedef {{id: number, leader: number | null, replicas: number[], in_sync: number[], first_offset: number | null,
 *   end_offset: number | null, records: number | null, size_bytes: number | null}} Partition
 */
/**
 * @typedef {{name: string, is_internal: boolean, replication: number, size_bytes: number | null,
 *   records: number | null, partitions: Partition[]}} Topic
 */

const AGAIN_MS = 5_000;

/** @type {import("../core/router.js").View} */
export const view = {
  title: (params) => params.name ?? "Topic",
  async open(container, params, _query, signal) {
    const name = params.name ?? "";
    const path = link`/api/topics/${name}`;
    const known = /** @type {{topic: Topic | null}} */ ({ topic: null });
    const ask = async () => {
      const topic = await api.get(path, { signal });
      known.topic = topic;
      replace(figures, summary(topic));
      replace(problem, faults(topic));
      list.update(topic.partitions);
      for (const action of actions) action.disabled = false;
    };
    // Of use once it is known what they change.
    const actions = canChange()
      ? [
          button("Add partitions", () => void (known.topic && addPartitions(known.topic, path, ask)), { icon: "plus", disabled: true }),
          button("Delete topic", () => void (known.topic && deleteTopic(known.topic, path)), { disabled: true }),
        ]
      : [];
    const body = h("div", { class: "view" }, loading("the topic"));
    replace(container, topicHead(name, "partitions", actions), body);
    const figures = h("div");
    const problem = h("div");
    const list = partitionTable(signal);
    await ask();
    replace(body, figures, problem, list.element);
    repeat(() => ask().catch((error) => signal.aborted || replace(problem, errorState(error))), AGAIN_MS, signal);
  },
};

/** @param {Topic} topic */
function summary(topic) {
  const fullest = topic.partitions.reduce((most, each) => Math.max(most, each.records ?? 0), 0);
  const share = topic.records ? fullest / topic.records : null;
  return cards(
    card("Partitions", number(topic.partitions.length)),
    card("Replicas", number(topic.replication)),
    card("Records", short(topic.records)),
    card("Size of one copy", bytes(topic.size_bytes)),
    card("In the fullest partition", percent(share)),
  );
}

/** @param {Topic} topic */
function faults(topic) {
  const behind = topic.partitions.filter((each) => each.in_sync.length < each.replicas.length);
  const lost = topic.partitions.filter((each) => each.leader === null);
  if (lost.length) {
    return note("warn", `${counted(lost.length, "partition")} without a leader: nobody can read or write there. Start the nodes that hold replicas.`);
  }
  if (behind.length) return note("warn", `${counted(behind.length, "partition")} with replicas that are behind or down.`);
  return topic.is_internal ? note("plain", "Brokers keep their own state in this topic. Changes here may break groups or transactions.") : null;
}

/** @param {AbortSignal} signal */
function partitionTable(signal) {
  /** @type {import("../core/table.js").Column<Partition>[]} */
  const columns = [
    { title: "Partition", cell: (each) => number(each.id), sort: (each) => each.id },
    { title: "Leader", cell: (each) => (each.leader === null ? badge("none", "bad") : `node ${each.leader}`), sort: (each) => each.leader },
    { title: "Replicas", cell: replicasOf },
    { title: "First offset", cell: (each) => number(each.first_offset), sort: (each) => each.first_offset, is_number: true },
    { title: "End offset", cell: (each) => number(each.end_offset), sort: (each) => each.end_offset, is_number: true },
    { title: "Records", cell: (each) => number(each.records), sort: (each) => each.records, is_number: true, hint: "From the first offset to the end; compaction and transactions leave gaps" },
    { title: "Size", cell: (each) => bytes(each.size_bytes), sort: (each) => each.size_bytes, is_number: true },
  ];
  return table({ caption: "Partitions", columns, key: (each) => String(each.id), signal, noun: "partition", sort_by: 0 });
}

/** @param {Partition} partition */
function replicasOf(partition) {
  const in_sync = new Set(partition.in_sync);
  return partition.replicas.flatMap((node) => [
    in_sync.has(node) ? badge(`node ${node}`) : h("span", { title: "Not in sync" }, badge(`node ${node} behind`, "warn")),
    " ",
  ]);
}

/**
 * @param {Topic} topic
 * @param {string} path
 * @param {() => Promise<void>} ask
 */
function addPartitions(topic, path, ask) {
  const before = topic.partitions.length;
  return openDialog("Add partitions", (close) => [
    h("p", { class: "about dialog-about" }, "A topic never loses partitions. Records with a key may go to another partition from then on: what relies on the order of a key breaks at that point."),
    form({
      fields: [{ name: "count", label: "Partitions after the change", type: "number", value: before + 1, min: before + 1, max: 10_000, required: true, hint: `There are ${before} now` }],
      action: "Add partitions",
      cancel: close,
      submit: async ({ count }) => {
        await api.post(`${path}/partitions`, { count });
        close();
        toast(`${topic.name} has ${count} partitions.`);
        await ask();
      },
    }),
  ]);
}

/**
 * @param {Topic} topic
 * @param {string} path
 */
async function deleteTopic(topic, path) {
  const is_done = await confirm({
    title: "Delete topic",
    body: h("p", null, "The topic ", h("strong", { class: "mono" }, ...text(topic.name)), ` goes with ${topic.records ? `its ${number(topic.records)} records` : "all it holds"}. This cannot be undone.`),
    action: "Delete topic",
    is_dangerous: true,
    typed_name: topic.name,
    run: () => api.delete(path),
  });
  if (!is_done) return;
  toast(`Topic ${topic.name} is deleted.`);
  goTo("/topics");
}
