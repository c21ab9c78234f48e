/**
 * A move of replicas, or a drain of a node: the wish, its preview, then the change.
 *
 * The change brings the mark of the preview, so nothing else happens than was shown.
 */

import { api } from "../core/api.js";
import { confirm, openDialog } from "../core/dialog.js";
import { h } from "../core/dom.js";
import { form } from "../core/form.js";
import { bytes, counted, NOTHING, number } from "../core/format.js";
import { note, text } from "../core/parts.js";
import { table } from "../core/table.js";
import { toast } from "../core/toast.js";

/** @typedef {import("./nodes_moves.js").Unit & {moved: number, splits: boolean, before: number[], target: number[], copied_bytes: number | null, bytes_per_second?: number | null, is_pace?: boolean}} Step */
/**
 * @typedef {{mark: string, steps: Step[], step_count: number, moved: number, along: number, copied_bytes: number | null,
 *   staying: string[], staying_count: number, truncated: boolean, is_cut: boolean, kind: "hutong" | "kafka"}} Plan
 */
/** @typedef {{begun: number, failed: {name: string, error: string}[], failed_count: number}} Outcome */

const NAMES_SHOWN_MAX = 10;

/**
 * Ask for a partition or a topic and its new brokers.
 * @param {{brokers: number[], topics: string[], kind: "hutong" | "kafka" | null}} cluster
 * @param {() => Promise<void>} changed
 */
export function askMove(cluster, changed) {
  const here = cluster.brokers.join(", ");
  /** @type {import("../core/form.js").Field[]} */
  const fields = [
    { name: "topic", label: "Topic", required: true, is_mono: true, suggestions: cluster.topics },
    { name: "partition", label: "Partition", type: "number", min: 0, hint: "Empty: all of the topic, whose leaders take turns among the brokers" },
    { name: "replicas", label: "Brokers", required: true, is_mono: true, hint: `Of ${here}. The first one should lead.`, check: (value) => (numbersIn(value) ? null : "Give numbers with commas between them, as 1, 2, 3.") },
  ];
  if (cluster.kind === "hutong") {
    fields.push({ name: "together", label: "Move whole partition groups", type: "checkbox", value: true, hint: "Partitions of one group move together. Else these get a group of their own first, and do not go back." });
    fields.push({ name: "bytes_per_second", label: "Bytes a second", type: "number", min: 1, max: Number.MAX_SAFE_INTEGER, hint: "What each node of the move copies until it is done. Empty: as the nodes' settings allow. Ask for the same move again to change it." });
  }
  return openDialog("Move replicas", (close) => {
    const submit = async (/** @type {import("../core/form.js").Values} */ values) => {
      const body = { topic: values.topic, partition: values.partition, replicas: numbersIn(values.replicas) ?? [], together: values.together ?? true, bytes_per_second: values.bytes_per_second ?? null };
      const plan = /** @type {Plan} */ (await api.post("/api/nodes/moves/preview", body));
      close();
      await begin(plan, { title: "Move replicas", action: "Move", path: "/api/nodes/moves", body }, changed);
    };
    return form({ fields, action: "Preview move", cancel: close, submit });
  });
}

/**
 * Ask what shall leave a node, then for its name.
 * @param {number} node
 * @param {() => Promise<void>} changed
 */
export function askDrain(node, changed) {
  const path = `/api/nodes/${node}/drain`;
  const choices = [
    { value: "replicas", label: "its replicas and its leaderships" },
    { value: "leaders", label: "its leaderships alone" },
  ];
  return openDialog(`Drain node ${node}`, (close) => {
    const submit = async (/** @type {import("../core/form.js").Values} */ values) => {
      const plan = /** @type {Plan} */ (await api.post(`${path}/preview`, { what: values.what }));
      close();
      const is_chosen = plan.kind === "hutong" && values.what === "replicas";
      const about = is_chosen
        ? "The node leads nothing from now on. The controller chooses the nodes that take its replicas, and gives it no new ones until you undrain it."
        : values.what === "leaders"
          ? "The node keeps its replicas, and is the last choice as their leader. Nothing is copied."
          : "Apache Kafka does not remember a drain: new topics may have replicas on this broker again.";
      const typed_name = `node ${node}`;
      await begin(plan, { title: `Drain node ${node}`, action: "Drain", path, body: { what: values.what }, typed_name, about, hides_target: is_chosen }, changed);
    };
    const fields = [{ name: "what", label: "What shall go elsewhere", type: /** @type {const} */ ("select"), choices, value: "replicas" }];
    return form({ fields, action: "Preview drain", cancel: close, submit });
  });
}

/**
 * Numbers of brokers in a text; null where it has something else.
 * @param {string} value
 */
export function numbersIn(value) {
  const parts = value.split(",").map((part) => part.trim());
  return parts.every((part) => /^\d{1,9}$/.test(part)) ? parts.map(Number) : null;
}

/**
 * Show a plan, and begin it once it is confirmed.
 * @param {Plan} plan
 * @param {{title: string, action: string, path: string, body: Record<string, unknown>, typed_name?: string, about?: string, hides_target?: boolean}} wish
 * @param {() => Promise<void>} changed
 */
async function begin(plan, wish, changed) {
  const ending = new AbortController();
  /** @type {Outcome} */
  let outcome = { begun: 0, failed: [], failed_count: 0 };
  const is_drain = wish.typed_name !== undefined;
  // A drain of a node that holds nothing keeps replicas away from it, all the same.
  if (!plan.step_count && !is_drain) {
    await openDialog(wish.title, () => note("plain", "All is where you want it: nothing would move."));
    return;
  }
  const is_done = await confirm({
    title: wish.title,
    body: [wish.about ? h("p", null, wish.about) : null, ...previewOf(plan, wish.hides_target ?? false, ending.signal)],
    action: is_drain ? wish.action : `${wish.action} ${counted(plan.moved, "partition")}`,
    is_dangerous: is_drain,
    is_wide: true,
    ...(wish.typed_name === undefined ? {} : { typed_name: wish.typed_name }),
    run: async () => {
      outcome = await api.post(wish.path, { ...wish.body, mark: plan.mark });
    },
  });
  ending.abort();
  if (!is_done) return;
  const [first] = outcome.failed;
  const failed = first ? ` ${counted(outcome.failed_count, "was", "were")} refused: ${first.name}: ${first.error}` : "";
  toast(`${counted(outcome.begun, "move has", "moves have")} begun.${failed}`, first ? { kind: "error" } : {});
  await changed();
}

/**
 * @param {Plan} plan
 * @param {boolean} hides_target
 * @param {AbortSignal} signal
 */
function previewOf(plan, hides_target, signal) {
  /** @type {import("../core/table.js").Column<Step>[]} */
  const columns = [
    { title: "What", is_mono: true, cell: (one) => text(one.name) },
    { title: "Partitions", cell: (one) => (one.splits ? `${number(one.moved)} of ${number(one.partitions)}, into a group of their own` : partitionsOf(one)) },
    { title: "Now", is_mono: true, cell: (one) => one.before.join(", ") },
    ...(hides_target ? [] : [{ title: "Then", is_mono: true, cell: (/** @type {Step} */ one) => one.target.join(", ") }]),
    { title: "To copy", is_number: true, cell: (one) => (one.copied_bytes === null ? NOTHING : bytes(one.copied_bytes)) },
  ];
  const throttle = plan.steps.find((one) => one.bytes_per_second)?.bytes_per_second;
  const list = plan.steps.length ? table({ caption: "Preview", columns, rows: plan.steps, key: (one) => one.name, signal }).element : null;
  return [
    h("p", null, summaryOf(plan)),
    plan.along ? note("warn", `${counted(plan.along, "partition goes", "partitions go")} along: ${plan.along === 1 ? "it is" : "they are"} in the same partition groups.`) : null,
    plan.steps.some((one) => one.splits) ? note("warn", "Partitions that leave their group do not go back into it. A cluster has at most 32 such groups.") : null,
    throttle ? note("plain", `Each node of the move copies at most ${bytes(throttle)} a second until it is done.`) : null,
    !throttle && plan.steps.some((one) => one.is_pace) ? note("plain", "It has no throttle of its own then.") : null,
    list,
    plan.truncated ? note("plain", `The first ${number(plan.steps.length)} are listed.`) : null,
    plan.staying_count ? note("warn", `${counted(plan.staying_count, "stays", "stay")}, since no other broker can take ${plan.staying_count === 1 ? "it" : "them"}: `, ...namesOf(plan)) : null,
    plan.is_cut ? note("plain", "These are as many as go at a time. Drain again for the rest.") : null,
  ];
}

/** @param {import("./nodes_moves.js").Unit} one */
export function partitionsOf(one) {
  const topics = one.topics.map((topic) => [...text(topic)]);
  const more = one.more_topics ? ` and ${number(one.more_topics)} more` : "";
  const names = topics.flatMap((topic, index) => (index ? [", ", ...topic] : topic));
  return names.length ? [`${number(one.partitions)} of `, ...names, more] : number(one.partitions);
}

/** @param {Plan} plan */
function namesOf(plan) {
  const shown = plan.staying.slice(0, NAMES_SHOWN_MAX);
  return [...text(shown.join(", ")), plan.staying_count > shown.length ? " …" : ""];
}

/** @param {Plan} plan */
function summaryOf(plan) {
  if (!plan.step_count) return "No replica would move now.";
  if (plan.steps.every((one) => one.is_pace)) return "This move is under way: it gets another throttle, and goes on.";
  const copied = plan.copied_bytes === null ? "How much is copied is not known." : plan.copied_bytes ? `About ${bytes(plan.copied_bytes)} are copied.` : "Nothing is copied.";
  return `${counted(plan.moved, "partition has", "partitions have")} other replicas then. ${copied}`;
}
