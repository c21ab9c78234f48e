/** The brokers of the cluster: what each leads and holds; partitions that lack something; where a topic's replicas are. */

import { api } from "../core/api.js";
import { confirm } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { counted, number } from "../core/format.js";
import { repeat } from "../core/live.js";
import { badge, button, card, cards, errorState, loading, note, pageHead, tabs, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { canChange, session } from "../core/session.js";
import { table } from "../core/table.js";
import { toast } from "../core/toast.js";
import { replicaMap } from "./nodes_map.js";
import { askDrain } from "./nodes_move.js";
import { movesPanel } from "./nodes_moves.js";

/**
 * @typedef {{id: number, address: string | null, rack: string | null, is_controller: boolean, leaders: number,
 *   preferred_leaders: number, replicas: number, behind: number}} Broker
 */
/** @typedef {{topic: string, partition: number, leader: number | null, replicas: number[], in_sync: number[]}} Place */
/**
 * @typedef {{cluster_id: string | null, controller: number | null, brokers: Broker[], topics: number, partitions: number,
 *   leaderless: number, under_replicated: number, not_preferred: number, topic_names: string[], problems: Place[], truncated: boolean}} Nodes
 */

const AGAIN_MS = 5_000;

/** @param {"/nodes" | "/nodes/this"} here */
export function nodesTabs(here) {
  if (!session().has_node) return null;
  return tabs("Nodes", [
    { label: "Brokers", href: "/nodes", is_current: here === "/nodes" },
    { label: "This node", href: "/nodes/this", is_current: here === "/nodes/this" },
  ]);
}

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Nodes",
  async open(container, _params, query, signal) {
    const body = h("div", { class: "view" }, loading("brokers"));
    replace(container, pageHead({ title: "Nodes" }), nodesTabs("/nodes"), body);
    /** @type {Nodes} */
    let told = await api.get("/api/nodes", { signal });
    const figures = h("div");
    const problem = h("div");
    const lacking = h("div");
    const state = { can_drain: false, drained: /** @type {number[]} */ ([]), changed: async () => {} };
    const brokers = brokerTable(signal, state);
    const map = replicaMap(told.topic_names, query.get("topic") ?? "", signal);
    const leaders = h("div");
    const moves = h("div");
    replace(body, figures, problem, brokers.element, lacking, leaders, moves, map.element);
    const show = () => {
      replace(figures, summary(told));
      brokers.update(told.brokers);
      map.update(told.topic_names);
    };
    const drawLacking = changed((/** @type {Nodes} */ now) => [now.problems, now.truncated], (now) => replace(lacking, problems(now, signal)));
    const drawLeaders = changed((/** @type {Nodes} */ now) => [now.not_preferred, now.brokers.length > 1], (now) => replace(leaders, leadersPanel(now, ask)));
    const drawBrokers = changed((/** @type {import("./nodes_moves.js").Moves} */ now) => [now.can_move, now.drained], (now) => {
      state.can_drain = now.can_move && canChange();
      state.drained = now.drained;
      brokers.update([...told.brokers]);
    });
    const ask = async () => {
      try {
        told = await api.get("/api/nodes", { signal });
        replace(problem);
        show();
        drawLacking(told);
        drawLeaders(told);
      } catch (error) {
        if (!signal.aborted) replace(problem, errorState(error));
      }
    };
    show();
    drawLacking(told);
    drawLeaders(told);
    // A broker alone has nowhere to move anything.
    if (told.brokers.length > 1) {
      const here = () => told.brokers.filter((one) => one.address !== null).map((one) => one.id);
      const panel = movesPanel({ brokers: here, topics: () => told.topic_names, told: drawBrokers, changed: ask, signal });
      state.changed = panel.changed;
      replace(moves, panel.element);
    }
    repeat(ask, AGAIN_MS, signal);
  },
};

/**
 * Draws a part only when something in it is another than before, so that the focus in it stays.
 * @template T
 * @param {(told: T) => unknown} part
 * @param {(told: T) => void} draw
 */
function changed(part, draw) {
  let drawn = "";
  return (/** @type {T} */ told) => {
    const now = JSON.stringify(part(told));
    if (now !== drawn) draw(told);
    drawn = now;
  };
}

/** @param {Nodes} told */
function summary(told) {
  return cards(
    card("Brokers", number(told.brokers.filter((one) => one.address !== null).length)),
    card("Controller", told.controller === null ? "none" : String(told.controller), { tone: told.controller === null ? "bad" : undefined }),
    card("Topics", number(told.topics)),
    card("Partitions", number(told.partitions)),
    card("Without leader", number(told.leaderless), { tone: told.leaderless ? "bad" : undefined }),
    card("Under-replicated", number(told.under_replicated), { tone: told.under_replicated ? "warn" : undefined }),
  );
}

/**
 * @param {AbortSignal} signal
 * @param {{can_drain: boolean, drained: number[], changed: () => Promise<void>}} state
 */
function brokerTable(signal, state) {
  /** @type {import("../core/table.js").Column<Broker>[]} */
  const columns = [
    { title: "Broker", sort: (one) => one.id, cell: (one) => String(one.id) },
    { title: "Address", is_mono: true, sort: (one) => one.address, cell: (one) => addressOf(one, state.drained.includes(one.id)) },
    { title: "Rack", is_mono: true, sort: (one) => one.rack, cell: (one) => (one.rack === null ? "–" : text(one.rack)) },
    { title: "Leads", is_number: true, sort: (one) => one.leaders, cell: (one) => number(one.leaders), hint: "Partitions that it leads" },
    { title: "Should lead", is_number: true, sort: (one) => one.preferred_leaders, cell: preferredOf, hint: "Partitions whose first replica it is" },
    { title: "Replicas", is_number: true, sort: (one) => one.replicas, cell: (one) => number(one.replicas) },
    { title: "Behind", is_number: true, sort: (one) => one.behind, cell: behindOf, hint: "Replicas that are not in sync" },
  ];
  if (canChange()) columns.push({ title: "Actions", is_action: true, cell: (one) => drainButton(one, state) });
  return table({ caption: "Brokers", columns, key: (one) => String(one.id), signal, noun: "broker", sort_by: 0 });
}

/**
 * @param {Broker} one
 * @param {boolean} is_drained
 */
function addressOf(one, is_drained) {
  const marks = [one.is_controller ? badge("controller", "accent") : null, is_drained ? badge("drained", "warn") : null].filter((mark) => mark !== null);
  if (one.address === null) return [badge("not there", "bad"), ...marks];
  return [...text(one.address), ...marks.flatMap((mark) => [" ", mark])];
}

/**
 * @param {Broker} one
 * @param {{can_drain: boolean, drained: number[], changed: () => Promise<void>}} state
 */
function drainButton(one, state) {
  if (!state.can_drain) return null;
  if (state.drained.includes(one.id)) return button("Undrain", () => void undrain(one.id, state.changed), { title: `Undrain node ${one.id}` });
  return button("Drain", () => void askDrain(one.id, state.changed), { title: `Drain node ${one.id}` });
}

/**
 * @param {number} node
 * @param {() => Promise<void>} changed
 */
async function undrain(node, changed) {
  const is_done = await confirm({
    title: `Undrain node ${node}`,
    body: h("p", null, "The node may lead and have replicas again. It gets its share by moves, or by `hutong cluster balance`."),
    action: "Undrain",
    run: () => api.delete(`/api/nodes/${node}/drain`),
  });
  if (is_done) await changed();
}

/** @param {Broker} one */
function preferredOf(one) {
  const told = number(one.preferred_leaders);
  return one.preferred_leaders === one.leaders ? told : h("span", { class: "tone-warn" }, told);
}

/** @param {Broker} one */
function behindOf(one) {
  return one.behind ? h("span", { class: "tone-warn" }, number(one.behind)) : "0";
}

/**
 * @param {Nodes} told
 * @param {AbortSignal} signal
 */
function problems(told, signal) {
  if (!told.problems.length) return null;
  /** @type {import("../core/table.js").Column<Place>[]} */
  const columns = [
    { title: "Topic", is_mono: true, cell: (one) => h("a", { href: link`/topics/${one.topic}` }, ...text(one.topic)) },
    { title: "Partition", cell: (one) => String(one.partition) },
    { title: "Leader", cell: (one) => (one.leader === null ? badge("none", "bad") : String(one.leader)) },
    { title: "Replicas", is_mono: true, cell: (one) => one.replicas.join(", ") },
    { title: "Not in sync", is_mono: true, cell: (one) => one.replicas.filter((broker) => !one.in_sync.includes(broker)).join(", ") || "–" },
  ];
  const rows = { rows: told.problems, key: (/** @type {Place} */ one) => `${one.topic}/${one.partition}` };
  const list = table({ caption: "Partitions that lack a leader or replicas", columns, signal, ...rows });
  const heading = h("h2", null, "Partitions that lack a leader or replicas");
  const more = told.truncated ? note("plain", `The first ${number(told.problems.length)} are listed.`) : null;
  return h("section", { class: "findings-section" }, heading, list.element, more);
}

/**
 * @param {Nodes} told
 * @param {() => Promise<void>} ask
 */
function leadersPanel(told, ask) {
  if (told.brokers.length < 2) return null;
  const elect = told.not_preferred && canChange() ? button("Elect preferred leaders", () => void electLeaders(told.not_preferred, ask), { kind: "main" }) : null;
  const away = told.not_preferred
    ? `${counted(told.not_preferred, "partition is", "partitions are")} not led by the first replica.`
    : "Each partition is led by its first replica.";
  return h(
    "section",
    { class: "panel" },
    h("h2", null, "Leaders"),
    h("p", null, away),
    elect ? h("div", { class: "actions" }, elect) : null,
  );
}

/**
 * @param {number} count
 * @param {() => Promise<void>} ask
 */
async function electLeaders(count, ask) {
  /** @type {{elected: number, failed: {topic: string, partition: number, error: string}[]}} */
  let outcome = { elected: 0, failed: [] };
  const is_done = await confirm({
    title: "Elect preferred leaders",
    body: h("p", null, `The first replica of ${counted(count, "partition")} leads again, if it is in sync. Clients follow within a moment.`),
    action: "Elect leaders",
    run: async () => {
      outcome = await api.post("/api/nodes/elect", { topic: null });
    },
  });
  if (!is_done) return;
  const [first] = outcome.failed;
  const failed = first ? ` ${counted(outcome.failed.length, "partition stays", "partitions stay")}: ${first.error}` : "";
  toast(`${counted(outcome.elected, "partition has", "partitions have")} the preferred leader.${failed}`);
  await ask();
}
