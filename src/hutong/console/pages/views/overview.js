/** How the node or cluster is, in one sentence and a few figures; what is wrong now, and what to do. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { number } from "../core/format.js";
import { events, repeat } from "../core/live.js";
import { card, cards, errorState, facts, loading, note, pageHead } from "../core/parts.js";
import { findingsList, healthStrip } from "./overview_findings.js";
import { liveFigures } from "./overview_figures.js";
import { outsideTables } from "./overview_outside.js";

/** @typedef {{tone: "good" | "warn" | "bad", sentence: string}} Health */
/**
 * @typedef {{cluster: {cluster_id: string | null, controller: number | null, brokers: number, topics: number, partitions: number,
 *   leaderless: number, under_replicated: number, not_preferred: number}, has_node: boolean, may_see_node: boolean,
 *   health: Health, findings: import("./overview_findings.js").Finding[], unseen: string[]}} Told
 */

const AGAIN_MS = 10_000;

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Overview",
  async open(container, _params, _query, signal) {
    const body = h("div", { class: "view" }, loading("the overview"));
    replace(container, pageHead({ title: "Overview" }), body);
    const health = healthStrip();
    const findings = findingsList();
    const figures = h("div", { class: "view" });
    const problem = h("div");
    /** @type {Told} */
    let told = await api.get("/api/overview", { signal });
    replace(body, health.element, findings.element, problem, figures);
    const outside = told.may_see_node ? null : outsideTables(signal);
    if (told.may_see_node) showNode(figures, health, findings, () => told, signal);
    const show = () => {
      replace(problem);
      if (told.may_see_node) return;
      health.show(told.health, "by Kafka's metadata");
      findings.show(told.findings);
      replace(figures, clusterCards(told), outside, unseen(told));
    };
    show();
    const ask = async () => {
      try {
        told = await api.get("/api/overview", { signal });
        show();
      } catch (error) {
        if (!signal.aborted) replace(problem, errorState(error));
      }
    };
    repeat(ask, AGAIN_MS, signal);
  },
};

/**
 * The figures of the node itself, as they come.
 * @param {Element} place
 * @param {ReturnType<typeof healthStrip>} health
 * @param {ReturnType<typeof findingsList>} findings
 * @param {() => Told} cluster
 * @param {AbortSignal} signal
 */
function showNode(place, health, findings, cluster, signal) {
  const live = liveFigures(signal);
  replace(place, live.element);
  health.show({ tone: "good", sentence: "Looking …" }, "");
  const show = (/** @type {any} */ told) => {
    // The node's own rules do not see what its cluster lacks as a whole.
    const found = [...cluster().findings, ...told.findings];
    health.show(cluster().findings.length ? cluster().health : told.health, `${number(told.rules)} rules look at every sample`);
    findings.show(found);
    live.show(told);
  };
  const lost = (/** @type {import("../core/live.js").LiveState} */ state) => health.setLive(state === "live");
  events("/api/overview/events", { history: live.begin, figures: show }, signal, lost);
}

/** @param {Told} told */
function clusterCards({ cluster }) {
  return cards(
    card("Brokers", number(cluster.brokers), { href: "/nodes" }),
    card("Controller", cluster.controller === null ? "none" : String(cluster.controller), { tone: cluster.controller === null ? "bad" : undefined }),
    card("Topics", number(cluster.topics), { href: "/topics" }),
    card("Partitions", number(cluster.partitions)),
    card("Without leader", number(cluster.leaderless), { tone: cluster.leaderless ? "bad" : undefined }),
    card("Under-replicated", number(cluster.under_replicated), { tone: cluster.under_replicated ? "warn" : undefined }),
  );
}

/** @param {Told} told */
function unseen(told) {
  const why = told.has_node
    ? note("plain", "Your user may not see the figures of this node: that needs DESCRIBE_CONFIGS on the cluster.")
    : note("plain", ["This console looks at the cluster from outside.", ...told.unseen].join(" "));
  return h("div", { class: "view" }, facts([["Cluster id", told.cluster.cluster_id ?? "unknown"]]), why);
}
