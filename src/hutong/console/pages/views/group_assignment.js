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

/** @param {WholeGroup} group */
export function assignmentPanel(group) {
  if (group.members.length === 0) {
    return emptyState("Nobody is in the group now.", "Its offsets wait for the next consumer. While there are no members, offsets can be reset.");
  }
  const lags = new Map(group.partitions.map((row) => [`${row.topic}/${row.partition}`, row.lag]));
  const most = group.partitions.reduce((largest, row) => Math.max(largest, row.lag ?? 0), 0);
  const shown = group.members.slice(0, MEMBERS_DRAWN_MAX);
  const rows = shown.map((member) => memberRow(member, lags, most));
  const rest = group.members.length - shown.length;
  return h(
    "section",
    { class: "view", "aria-label": "Members" },
    h("h2", null, `Members and their partitions`),
    h("ul", { class: "members" }, ...rows),
    rest > 0 ? h("p", { class: "about" }, `and ${counted(rest, "more member")}`) : null,
    h("p", { class: "about member-key" }, field("", 0, 0, 1), " no lag ", field("", 1, 0, 4), " some ", field("", 4, 0, 4), " the most of this group ", field("", null, 0, 4), " nothing committed yet"),
  );
}

/**
 * @param {Member} member
 * @param {Map<string, number | null>} lags
 * @param {number} most
 */
function memberRow(member, lags, most) {
  const topics = Object.entries(member.assigned);
  const count = topics.reduce((sum, [, partitions]) => sum + partitions.length, 0);
  const name = member.instance_id ?? member.client_id;
  const moving = member.target !== null && JSON.stringify(member.target) !== JSON.stringify(member.assigned);
  const drawn = topics.map(([topic, partitions]) =>
    h(
      "div",
      { class: "member-topic" },
      h("span", { class: "mono" }, ...text(topic)),
      h(
        "span",
        { class: "fields", role: "img", "aria-label": `Partitions ${partitions.slice(0, FIELDS_MAX).join(", ")} of ${topic}` },
        ...partitions.slice(0, FIELDS_MAX).map((partition) => field(`${topic}, partition ${partition}`, lags.get(`${topic}/${partition}`) ?? null, partition, most, true)),
      ),
    ),
  );
  return h(
    "li",
    { class: "member" },
    h(
      "div",
      { class: "member-name" },
      h("strong", { class: "mono" }, ...text(name)),
      member.instance_id === null ? null : badge("static"),
      moving ? badge("being reassigned", "warn") : null,
      h("span", { class: "about" }, `${member.host} · ${counted(count, "partition")}`),
      h("span", { class: "about mono member-id" }, ...text(member.member_id)),
    ),
    h("div", { class: "member-topics" }, ...(drawn.length ? drawn : [h("span", { class: "about" }, "reads nothing: there are more members than partitions")])),
  );
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
