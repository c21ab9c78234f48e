/** One group: members and what each of them reads, offsets and lag, lag over time; resets begin here. */

import { api } from "../core/api.js";
import { confirm } from "../core/dialog.js";
import { h, replace } from "../core/dom.js";
import { duration, number, rate } from "../core/format.js";
import { repeat } from "../core/live.js";
import { bind } from "../core/keys.js";
import { button, card, cards, emptyState, errorState, loading, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { goTo } from "../core/router.js";
import { canChange } from "../core/session.js";
import { table } from "../core/table.js";
import { toast } from "../core/toast.js";
import { assignmentPanel } from "./group_assignment.js";
import { lagPanel } from "./group_lag.js";
import { resetOffsets } from "./group_reset.js";
import { isFromNode, stateBadge } from "./groups.js";

/**
 * @typedef {{topic: string, partition: number, committed: number | null, begin: number | null, end: number | null,
 *   lag: number | null, member_id: string | null}} Offset
 */
/**
 * @typedef {{member_id: string, client_id: string, instance_id: string | null, host: string,
 *   assigned: Record<string, number[]>, target: Record<string, number[]> | null, standby?: Record<string, number[]>}} Member
 */
/**
 * @typedef {{name: string, state: string, type: string, is_simple: boolean, assignor: string | null,
 *   coordinator: number | null, members: Member[], partitions: Offset[], lag: number, is_elsewhere?: boolean,
 *   sources?: Record<string, string[]>}} WholeGroup those of a node have `sources`: of a streams group, by subtopology
 */

const AGAIN_MS = 4_000;
const TOOLS = /** @type {Record<string, string>} */ ({ share: "kafka-share-groups.sh", streams: "kafka-streams-groups.sh" });

/** @type {import("../core/router.js").View} */
export const view = {
  title: (params) => params.name ?? "Group",
  async open(container, params, _query, signal) {
    const name = params.name ?? "";
    const path = link`/api/groups/${name}`;
    const body = h("div", { class: "view" }, loading("the group"));
    const actions = h("div", { class: "actions" });
    replace(container, pageHead({ title: name, trail: [{ label: "Groups", href: "/groups" }], actions: [actions], is_name: true }), body);
    let group = /** @type {WholeGroup} */ (await api.get(path, { signal }));
    /** @type {import("./group_lag.js").Pace} */
    let pace = { consumed_per_s: null, produced_per_s: null, catch_up_s: null };
    const figures = h("div");
    const problem = h("div");
    const members = h("div", { class: "view" });
    const reset = (/** @type {Offset | null} */ row) => void resetOffsets(group, row, ask);
    const can_change = canChange() && !isFromNode(group);
    const offsets = offsetTable(group, signal, can_change ? reset : null);
    const showFigures = () => replace(figures, summary(group, pace));
    const show = () => {
      showFigures();
      replace(problem);
      replace(members, assignmentPanel(group));
      offsets.update(group.partitions);
    };
    const ask = async () => {
      group = /** @type {WholeGroup} */ (await api.get(path, { signal }));
      show();
    };
    show();
    if (can_change) {
      replace(actions, button("Reset offsets", () => reset(null), { kind: "main" }), button("Delete group", () => void deleteGroup(group, path)));
      bind("r", "Reset offsets", () => reset(null), { signal });
    }
    const chart = lagPanel(group, signal, (now) => {
      pace = now;
      showFigures();
    });
    replace(body, figures, problem, chart, members, h("section", { class: "view" }, h("h2", null, "Offsets"), offsets.element), aboutChanges(group));
    repeat(() => ask().catch((error) => signal.aborted || replace(problem, errorState(error))), AGAIN_MS, signal);
  },
};

/**
 * @param {WholeGroup} group
 * @param {import("./group_lag.js").Pace} pace
 */
function summary(group, pace) {
  const behind = pace.catch_up_s === null && pace.consumed_per_s !== null && group.lag > 0;
  const type = group.is_simple ? "No member has ever joined" : group.assignor ? `Assigns by ${group.assignor}` : null;
  const keeper = group.coordinator === null ? null : `kept by node ${group.coordinator}${group.is_elsewhere ? ", not this one" : ""}`;
  return cards(
    card("State", stateBadge(group.state), { note: keeper }),
    card("Type", group.type, { note: type }),
    card("Members", number(group.members.length)),
    card("Lag", number(group.lag), { note: "records" }),
    card("Consumed", rate(pace.consumed_per_s), { note: pace.produced_per_s === null ? null : `${rate(pace.produced_per_s)} written` }),
    card("Caught up in", pace.catch_up_s === null ? "–" : pace.catch_up_s === 0 ? "now" : duration(pace.catch_up_s * 1_000), { tone: behind ? "warn" : undefined, note: behind ? "the lag does not shrink" : "at this pace" }),
  );
}

/** @param {WholeGroup} group */
function aboutChanges(group) {
  const tool = TOOLS[group.type];
  return canChange() && tool ? h("p", { class: "about" }, `Its offsets are reset, and it is deleted, with `, h("code", null, tool), ".") : null;
}

/**
 * @param {WholeGroup} group
 * @param {AbortSignal} signal
 * @param {((row: Offset) => void) | null} setOffset null where they cannot be set here
 */
function offsetTable(group, signal, setOffset) {
  const committed = group.type === "share" ? { title: "Open from", hint: "The first record that is not done; some behind it may be" } : { title: "Committed", hint: "The next record that the group reads" };
  /** @type {import("../core/table.js").Column<Offset>[]} */
  const columns = [
    { title: "Topic", is_mono: true, sort: (row) => row.topic, cell: (row) => h("a", { href: link`/topics/${row.topic}` }, ...text(row.topic)) },
    { title: "Partition", is_number: true, sort: (row) => row.partition, cell: (row) => number(row.partition) },
    { ...committed, is_number: true, sort: (row) => row.committed, cell: (row) => number(row.committed) },
    { title: "Log begins", is_number: true, sort: (row) => row.begin, cell: (row) => number(row.begin) },
    { title: "Log ends", is_number: true, sort: (row) => row.end, cell: (row) => number(row.end) },
    { title: "Lag", is_number: true, sort: (row) => row.lag, cell: lagOf },
  ];
  if (setOffset) {
    columns.push({ title: "Actions", is_action: true, cell: (row) => button("Set offset", () => setOffset(row), { kind: "quiet", title: `Set the offset of ${row.topic}, partition ${row.partition}` }) });
  }
  return table({
    caption: "Offsets by partition",
    columns,
    signal,
    key: (row) => `${row.topic}/${row.partition}`,
    search: (row) => `${row.topic} ${row.partition}`,
    filter_label: "Filter partitions",
    noun: "partition",
    empty: () => emptyState("The group has no offsets.", "They come with the first commit, or by a reset."),
  });
}

/** @param {Offset} row */
function lagOf(row) {
  if (row.lag === null || row.committed === null || row.begin === null) return number(null);
  // Retention deletes what a slow group has not read.
  const lost = row.begin - row.committed;
  return lost > 0 ? h("span", { class: "tone-bad", title: `${number(lost)} records were deleted before the group read them` }, number(row.lag)) : number(row.lag);
}

/**
 * @param {WholeGroup} group
 * @param {string} path
 */
async function deleteGroup(group, path) {
  const is_done = await confirm({
    title: "Delete group",
    body: h("p", null, "The group ", h("strong", { class: "mono" }, ...text(group.name)), ` forgets its ${number(group.partitions.length)} offsets. Consumers that come back begin where their own settings say.`),
    action: "Delete group",
    is_dangerous: true,
    typed_name: group.name,
    run: () => api.delete(path),
  });
  if (!is_done) return;
  toast(`Group ${group.name} is deleted.`);
  goTo("/groups");
}
