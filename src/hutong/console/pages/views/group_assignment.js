/** Members of a group, and the partitions that each of them reads, drawn as fields of a grid. */

import { h } from "../core/dom.js";
import { counted, number } from "../core/format.js";
import { badge, emptyState, text } from "../core/parts.js";

/** @typedef {import("./group.js").Member} Member */
/** @typedef {import("./group.js").WholeGroup} WholeGroup */

const MEMBERS_DRAWN_MAX = 200;
const FIELDS_MAX = 500;
const WARM_LAG = 1;
const HOT_SHARE = 0.5;
const ABOUT = /** @type {Record<string, string>} */ ({
  share: "Members of a share group take records of the same partitions, one by one.",
  streams: "A task reads one partition of each topic of its subtopology; its lag is that of these partitions.",
});

/** @param {WholeGroup} group */
export function assignmentPanel(group) {
  if (group.members.length === 0) {
    return emptyState("Nobody is in the group now.", "Its offsets wait for the next consumer. While there are no members, offsets can be reset.");
  }
  const lags = group.type === "streams" ? taskLags(group) : new Map(group.partitions.map((row) => [`${row.topic}/${row.partition}`, row.lag]));
  const most = [...lags.values()].reduce((/** @type {number} */ largest, lag) => Math.max(largest, lag ?? 0), 0);
  const shown = group.members.slice(0, MEMBERS_DRAWN_MAX);
  const rows = shown.map((member) => memberRow(member, group.type === "streams", lags, most));
  const rest = group.members.length - shown.length;
  return h(
    "section",
    { class: "view", "aria-label": "Members" },
    h("h2", null, group.type === "streams" ? "Members and their tasks" : "Members and their partitions"),
    ABOUT[group.type] ? h("p", { class: "about" }, ABOUT[group.type] ?? "") : null,
    h("ul", { class: "members" }, ...rows),
    rest > 0 ? h("p", { class: "about" }, `and ${counted(rest, "more member")}`) : null,
    h(
      "p",
      { class: "about member-key" },
      h("span", null, field("", 0, 0, 1), "no lag"),
      h("span", null, field("", 1, 0, 4), "some"),
      h("span", null, field("", 4, 0, 4), "the most of this group"),
      h("span", null, field("", null, 0, 4), "nothing committed yet"),
    ),
  );
}

/**
 * The lag of each task, by subtopology and partition; null where nothing is committed.
 * @param {WholeGroup} group
 * @returns {Map<string, number | null>}
 */
export function taskLags(group) {
  /** @type {Map<string, number | null>} */
  const lags = new Map();
  for (const [subtopology, topics] of Object.entries(group.sources ?? {})) {
    for (const row of group.partitions) {
      if (row.lag === null || !topics.includes(row.topic)) continue;
      const task = `${subtopology}/${row.partition}`;
      lags.set(task, (lags.get(task) ?? 0) + row.lag);
    }
  }
  return lags;
}

/**
 * @param {Member} member
 * @param {boolean} has_tasks
 * @param {Map<string, number | null>} lags
 * @param {number} most
 */
function memberRow(member, has_tasks, lags, most) {
  const topics = Object.entries(member.assigned);
  const count = topics.reduce((sum, [, partitions]) => sum + partitions.length, 0);
  const name = member.instance_id ?? member.client_id;
  const moving = member.target !== null && JSON.stringify(member.target) !== JSON.stringify(member.assigned);
  const noun = has_tasks ? "task" : "partition";
  const drawn = topics.map(([topic, partitions]) => {
    const name = has_tasks ? `subtopology ${topic}` : topic;
    const fields = partitions.slice(0, FIELDS_MAX).map((partition) => field(`${name}, ${noun} ${partition}`, lags.get(`${topic}/${partition}`) ?? null, partition, most, true));
    return assignedRow(name, `${noun}s ${partitions.slice(0, FIELDS_MAX).join(", ")} of ${name}`, fields);
  });
  // Copies of state that are kept up to date elsewhere: they read no source.
  for (const [subtopology, tasks] of Object.entries(member.standby ?? {})) {
    const fields = tasks.slice(0, FIELDS_MAX).map((task) => h("span", { class: "field-plain partition-field", title: `subtopology ${subtopology}, standby task ${task}` }, String(task)));
    drawn.push(assignedRow(`subtopology ${subtopology}, standby`, `standby tasks ${tasks.slice(0, FIELDS_MAX).join(", ")} of subtopology ${subtopology}`, fields));
  }
  return h(
    "li",
    { class: "member" },
    h(
      "div",
      { class: "member-name" },
      h("strong", { class: "mono" }, ...text(name)),
      member.instance_id === null ? null : badge("static"),
      moving ? badge("being reassigned", "warn") : null,
      h("span", { class: "about" }, `${member.host} · ${counted(count, noun)}`),
      h("span", { class: "about mono member-id" }, ...text(member.member_id)),
    ),
    h("div", { class: "member-topics" }, ...(drawn.length ? drawn : [h("span", { class: "about" }, `reads nothing: there are more members than ${noun}s, or it has just come`)])),
  );
}

/**
 * @param {string} name
 * @param {string} label
 * @param {HTMLElement[]} fields
 */
function assignedRow(name, label, fields) {
  return h("div", { class: "member-topic" }, h("span", { class: "mono" }, ...text(name)), h("span", { class: "fields", role: "img", "aria-label": label }, ...fields));
}

/**
 * @param {string} title
 * @param {number | null} lag null: the group has no offset here
 * @param {number} partition
 * @param {number} most
 * @param {boolean} [is_numbered]
 */
function field(title, lag, partition, most, is_numbered = false) {
  const kind = lag === null ? "plain" : lag < WARM_LAG ? "calm" : lag >= most * HOT_SHARE && most > 0 ? "hot" : "warm";
  const told = !title ? null : lag === null ? `${title}: nothing is committed yet` : `${title}: lag ${number(lag)}`;
  return h("span", { class: `field-${kind} partition-field`, title: told, "aria-hidden": is_numbered ? null : "true" }, is_numbered ? String(partition) : "");
}
