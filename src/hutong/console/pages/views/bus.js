/** The event bus: its addresses, what passes at them, and messages sent from here. */

import { api } from "../core/api.js";
import { h, replace } from "../core/dom.js";
import { bytes, number } from "../core/format.js";
import { bind } from "../core/keys.js";
import { repeat } from "../core/live.js";
import { badge, button, card, cards, emptyState, errorState, loading, note, pageHead, text } from "../core/parts.js";
import { setQuery } from "../core/router.js";
import { canChange } from "../core/session.js";
import { table } from "../core/table.js";
import { sendMessage } from "./bus_send.js";
import { tapPanel } from "./bus_tap.js";

/** @typedef {{address: string, consumers: number, elsewhere: number, local_only: number, discarded_total: number}} Address */
/**
 * @typedef {{node: string, is_connected: boolean, sent_total: number, sent_bytes_total: number, received_total: number,
 *   received_bytes_total: number, queued: number, queued_bytes: number}} OtherNode
 */

const AGAIN_MS = 3_000;

/** @type {import("../core/router.js").View} */
export const view = {
  title: "Bus",
  async open(container, _params, query, signal) {
    const body = h("div", { class: "view" }, loading("addresses"));
    const send = canChange() ? button("Send message", () => void sendMessage(""), { kind: "main", icon: "plus" }) : null;
    const about = "Messages between handlers: sent to one, published to all, or answered.";
    replace(container, pageHead({ title: "Bus", about, actions: [send] }), body);
    const told = await api.get("/api/bus", { signal });
    if (!told.has_bus) {
      const how = ["A program has one with ", h("code", null, "async with hutong.Node() as node: node.bus"), "; ", h("code", null, "hutong serve --tcp-bridge"), " opens one for Vert.x clients."];
      replace(body, emptyState("This node runs no event bus.", how));
      return;
    }
    if (send) bind("n", "Send a message", () => void sendMessage(""), { signal });
    showBus(body, told, query, signal);
  },
};

/**
 * @param {Element} body
 * @param {any} told
 * @param {URLSearchParams} query
 * @param {AbortSignal} signal
 */
function showBus(body, told, query, signal) {
  const tap = tapPanel(query.get("tap") ?? "", signal, (pattern) => setQuery({ tap: pattern }));
  const list = addressTable(signal, tap.open);
  const figures = h("div");
  const others = h("div");
  const problem = h("div");
  const show = (/** @type {any} */ now) => {
    replace(figures, summary(now));
    replace(problem, now.truncated ? note("warn", `Only ${number(now.addresses.length)} of ${number(now.address_count)} addresses are listed.`) : null);
    list.update(now.addresses);
    replace(others, now.nodes.length ? otherNodes(now.nodes, signal) : null);
  };
  show(told);
  replace(body, figures, problem, tap.element, list.element, others);
  const ask = async () => {
    try {
      show(await api.get("/api/bus", { signal }));
    } catch (error) {
      if (!signal.aborted) replace(problem, errorState(error));
    }
  };
  repeat(ask, AGAIN_MS, signal);
}

/** @param {any} told */
function summary(told) {
  return cards(
    card("Addresses", number(told.address_count)),
    card("Consumers here", number(told.consumers)),
    card("Replies awaited", number(told.replies_awaited)),
    card("Unanswered requests", number(told.unanswered_total), { tone: told.unanswered_total ? "warn" : undefined, note: "since the start" }),
  );
}

/**
 * @param {AbortSignal} signal
 * @param {(address: string) => void} openTap
 */
function addressTable(signal, openTap) {
  /** @type {import("../core/table.js").Column<Address>[]} */
  const columns = [
    { title: "Address", is_mono: true, sort: (one) => one.address, cell: addressOf },
    { title: "Consumers here", is_number: true, sort: (one) => one.consumers, cell: (one) => number(one.consumers) },
    { title: "On other nodes", is_number: true, sort: (one) => one.elsewhere, cell: (one) => number(one.elsewhere) },
    { title: "Discarded", is_number: true, sort: (one) => one.discarded_total, cell: (one) => number(one.discarded_total), hint: "Messages that consumers threw away: their buffers were full" },
    { title: "Actions", is_action: true, cell: (one) => actionsOf(one, openTap) },
  ];
  return table({
    caption: "Addresses",
    columns,
    signal,
    key: (one) => one.address,
    search: (one) => one.address,
    filter_label: "Filter addresses",
    noun: "address",
    nouns: "addresses",
    sort_by: 0,
    empty: () => emptyState("Nobody listens at an address.", ["A handler does with ", h("code", null, "bus.consumer(\"shop.orders\", handle)"), "."]),
  });
}

/** @param {Address} one */
function addressOf(one) {
  const all = one.local_only === one.consumers && one.elsewhere === 0 && one.consumers > 0;
  return all ? [...text(one.address), " ", badge("this process only")] : text(one.address);
}

/**
 * @param {Address} one
 * @param {(address: string) => void} openTap
 */
function actionsOf(one, openTap) {
  return [
    button("Tap", () => openTap(one.address), { kind: "quiet", title: `Show what passes at ${one.address}` }),
    canChange() ? button("Send", () => void sendMessage(one.address), { kind: "quiet", title: `Send a message to ${one.address}` }) : null,
  ];
}

/**
 * @param {OtherNode[]} nodes
 * @param {AbortSignal} signal
 */
function otherNodes(nodes, signal) {
  /** @type {import("../core/table.js").Column<OtherNode>[]} */
  const columns = [
    { title: "Node", is_mono: true, sort: (one) => one.node, cell: (one) => text(one.node) },
    { title: "Connection", cell: (one) => (one.is_connected ? badge("open", "good") : badge("closed", "bad")) },
    { title: "Sent", is_number: true, sort: (one) => one.sent_total, cell: (one) => `${number(one.sent_total)} · ${bytes(one.sent_bytes_total)}` },
    { title: "Received", is_number: true, sort: (one) => one.received_total, cell: (one) => `${number(one.received_total)} · ${bytes(one.received_bytes_total)}` },
    { title: "Waiting", is_number: true, sort: (one) => one.queued, cell: (one) => number(one.queued), hint: "Messages that wait for the connection" },
  ];
  const list = table({ caption: "Other nodes of the bus", columns, signal, key: (one) => one.node, rows: nodes, noun: "node" });
  return h("section", null, h("h2", null, "Other nodes"), list.element);
}
