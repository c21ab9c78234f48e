/** Moves of replicas: those under way with their progress, and the buttons that begin, take back and drain. */

import { api } from "../core/api.js";
import { confirm } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { bytes, counted, NOTHING, number } from "../core/format.js";
import { repeat } from "../core/live.js";
import { button, copyButton, note, text } from "../core/parts.js";
import { canChange } from "../core/session.js";
import { table } from "../core/table.js";
import { toast } from "../core/toast.js";
import { askMove, partitionsOf } from "./nodes_move.js";

/**
 * @typedef {{name: string, group: string | null, partitions: number, topics: string[], more_topics: number}} Unit
 */
/**
 * @typedef {Unit & {topic?: string, partition?: number, before: number[] | null, target: number[],
 *   copied_bytes: number | null, whole_bytes: number | null, bytes_per_second?: number | null}} Move
 */
/**
 * @typedef {{can_move: boolean, why_not: string | null, kind: "hutong" | "kafka" | null, moves: Move[],
 *   truncated: boolean, drained: number[]}} Moves
 */

const AGAIN_MS = 3_000;

/**
 * @param {{brokers: () => number[], topics: () => string[], told: (moves: Moves) => void, changed: () => Promise<void>,
 *   signal: AbortSignal}} page `told` hears each answer
 */
export function movesPanel(page) {
  const { signal } = page;
  const actions = h("div", { class: "actions" });
  const about = h("div");
  const listed = h("div");
  const element = h("section", { class: "panel", "aria-labelledby": "moves" }, h("h2", { id: "moves" }, "Moves of replicas"), actions, about, listed);
  const list = moveTable(signal, (move) => void takeBack(move, changed));
  let kind = "";
  const ask = async () => {
    /** @type {Moves} */
    const told = await api.get("/api/nodes/moves", { signal });
    page.told(told);
    list.update(told.moves);
    const now = `${told.kind} ${told.why_not} ${told.truncated} ${told.moves.length > 0}`;
    // The same is not drawn twice, so that the focus in it stays.
    if (now === kind) return;
    kind = now;
    const begin = () => void askMove({ brokers: page.brokers(), topics: page.topics(), kind: told.kind }, changed);
    replace(actions, told.can_move && canChange() ? button("Move replicas", begin, { kind: "main" }) : null);
    replace(about, ...aboutOf(told));
    replace(listed, told.moves.length ? list.element : null, told.truncated ? note("plain", `The first ${number(told.moves.length)} are listed.`) : null);
  };
  const changed = async () => {
    await ask();
    await page.changed();
  };
  const quietly = () => ask().catch(() => {}); // the page's own question shows what is wrong
  void quietly();
  repeat(quietly, AGAIN_MS, signal);
  return { element, changed };
}

/** @param {Moves} told */
function aboutOf(told) {
  if (!told.can_move) {
    const commands = ["hutong cluster drain NODE", "hutong cluster move TOPIC/PARTITION --to 1,2,3"].map(command);
    return [note("plain", ...text(told.why_not ?? "")), h("p", { class: "quiet" }, "The command line of a Hutong cluster can:"), ...commands];
  }
  const how =
    told.kind === "hutong"
      ? "Partitions of one partition group share a journal, so they move together."
      : "These brokers are not Hutong's: each partition moves by itself, as fast as the brokers' own throttles let it.";
  return [h("p", { class: "quiet" }, told.moves.length ? how : `Nothing is on its way. ${how}`)];
}

/** @param {string} line */
function command(line) {
  return h("p", { class: "command" }, h("code", null, line), copyButton("Copy", () => line));
}

/**
 * @param {AbortSignal} signal
 * @param {(move: Move) => void} back
 */
function moveTable(signal, back) {
  /** @type {import("../core/table.js").Column<Move>[]} */
  const columns = [
    { title: "What", is_mono: true, sort: (one) => one.name, cell: (one) => text(one.name) },
    { title: "Partitions", cell: partitionsOf },
    { title: "From", is_mono: true, cell: (one) => (one.before === null ? NOTHING : one.before.join(", ")) },
    { title: "To", is_mono: true, cell: (one) => one.target.join(", ") },
    { title: "Copied", cell: progressOf },
  ];
  if (canChange()) columns.push({ title: "Actions", is_action: true, cell: (one) => button("Take back", () => back(one), { title: `Take back the move of ${one.name}` }) });
  return table({ caption: "Moves under way", columns, key: (one) => one.name, signal });
}

/** @param {Move} one */
function progressOf(one) {
  if (one.copied_bytes === null || one.whole_bytes === null) return NOTHING;
  const told = `${bytes(one.copied_bytes)} of ${bytes(one.whole_bytes)}`;
  const bar = h("progress", { max: Math.max(one.whole_bytes, 1), value: one.copied_bytes, "aria-label": `Copied of ${one.name}` });
  const throttle = one.bytes_per_second ? h("span", { class: "quiet" }, `at most ${bytes(one.bytes_per_second)}/s`) : null;
  return h("span", { class: "move-progress" }, bar, told, throttle);
}

/**
 * @param {Move} move
 * @param {() => Promise<void>} changed
 */
async function takeBack(move, changed) {
  const body = move.group === null ? { topic: move.topic, partition: move.partition } : { group: move.group };
  const is_done = await confirm({
    title: "Take back a move",
    body: h("p", null, h("span", { class: "mono" }, ...text(move.name)), ` keeps the replicas that it had. What was copied of ${counted(move.partitions, "partition")} is deleted again.`),
    action: "Take back",
    run: () => api.post("/api/nodes/moves/take-back", body),
  });
  if (!is_done) return;
  toast(`The move of ${move.name} is taken back.`);
  await changed();
}
