/**
 * A record's way: every place in the log where its key, trace or header is found, the batches of pipelines that have
 * read it, and the spans, on one time axis.
 */

import { h, replace } from "../core/dom.js";
import { counted, duration, number } from "../core/format.js";
import { form } from "../core/form.js";
import { events } from "../core/live.js";
import { badge, emptyState, moment, note, pageHead, text } from "../core/parts.js";
import { link } from "../core/paths.js";
import { setQuery } from "../core/router.js";
import { batchItem } from "./trail_batches.js";
import { TrailSpans, spanItem } from "./trail_spans.js";

/** @typedef {{group: string, has_passed: boolean, records_before: number}} Reader */
/**
 * @typedef {{topic: string, partition: number, offset: number, timestamp_ms: number, reason: string, key: string | null,
 *   value: string | null, trace: string | null, letter: any, readers: Reader[]}} Hop
 */
/** @typedef {{topic: string | null, topics_done: number, topics_total: number, looked_at: number, hops: number, is_cut: boolean, is_ended: boolean}} Progress */

const CLUES = [
  { value: "key", label: "Key" },
  { value: "trace", label: "Trace id" },
  { value: "header", label: "Header, as name:value" },
];
const READERS_SHOWN = 6;

/** @type {import("../core/router.js").View} */
export const view = {
  title: "A record's way",
  async open(container, _params, query, signal) {
    const found = h("div", { class: "view" });
    const about = "Give a key, a trace or a header: the console looks through all topics, and shows where it was written, who has read it, and where it failed.";
    /** @type {AbortController | null} */
    let running = null;
    /** @type {AbortController | null} */
    let left = null;
    const follow = (/** @type {Record<string, string>} */ clue) => {
      running?.abort();
      left?.abort();
      const [control, leave] = [new AbortController(), new AbortController()];
      running = control;
      left = leave;
      for (const each of [control, leave]) signal.addEventListener("abort", () => each.abort(), { once: true });
      replace(found, followed(clue, control, leave.signal));
    };
    replace(container, pageHead({ title: "A record's way", about }), clueForm(query, follow), found);
    const given = clueOf(query);
    if (given) follow(given);
    else replace(found, emptyState("Nothing is followed yet.", "A record's page has a link that follows it, too."));
  },
};

/**
 * The clue in the page's address, as the server takes it.
 * @param {URLSearchParams} query
 * @returns {Record<string, string> | null}
 */
export function clueOf(query) {
  const topics = query.get("topics");
  const place = query.get("place");
  /** @type {Record<string, string>} */
  const more = topics ? { topics } : {};
  if (place) return { place, partition: query.get("partition") ?? "0", offset: query.get("offset") ?? "0", ...more };
  for (const { value } of CLUES) {
    const given = query.get(value);
    if (given !== null) return { [value]: given, ...more };
  }
  return null;
}

/**
 * @param {URLSearchParams} query
 * @param {(clue: Record<string, string>) => void} follow
 */
function clueForm(query, follow) {
  const kind = CLUES.find((one) => query.has(one.value))?.value ?? "key";
  return form({
    fields: [
      { name: "kind", label: "Follow by", type: "select", choices: CLUES, value: kind },
      { name: "clue", label: "Value", required: true, is_mono: true, value: query.get(kind) ?? "" },
      { name: "topics", label: "Topics, with commas", is_mono: true, value: query.get("topics") ?? "" },
    ],
    is_inline: true,
    action: "Follow",
    submit: async (values) => {
      const cleared = { key: null, trace: null, header: null, place: null, partition: null, offset: null };
      setQuery({ ...cleared, [values.kind]: values.clue, topics: values.topics });
      follow({ [values.kind]: values.clue, ...(values.topics ? { topics: values.topics } : {}) });
    },
  });
}

/**
 * @param {Record<string, string>} clue
 * @param {AbortController} control ends the search
 * @param {AbortSignal} leaving the page, or for another clue
 */
function followed(clue, control, leaving) {
  const state = h("p", { class: "count", role: "status" }, "Looking …");
  const axis = h("ol", { class: "trail-axis" });
  const problem = h("div", { class: "view" });
  /** @type {Hop[]} */
  const hops = [];
  /** @type {import("./trail_batches.js").Batch[]} */
  const batches = [];
  /** @type {Progress | null} */
  let ended = null;
  const draw = () => {
    replace(axis, ...onAxis(hops, batches, spans));
    replace(problem, conclusion(ended, hops, spans), ...aboutNodes(spans));
  };
  const spans = new TrailSpans(leaving, draw);
  const onHop = (/** @type {Hop} */ hop) => {
    hops.push(hop);
    hops.sort((a, b) => a.timestamp_ms - b.timestamp_ms || a.topic.localeCompare(b.topic) || a.offset - b.offset);
    spans.ask(hop.trace);
    draw();
  };
  spans.ask(clue.trace?.trim().toLowerCase() ?? null);
  const onProgress = (/** @type {Progress} */ now) => {
    const looked = `${counted(now.looked_at, "record")} of ${counted(now.topics_total, "topic")} looked at`;
    replace(state, now.is_ended ? `${counted(now.hops, "place")} found; ${looked}.` : `${looked}; in ${now.topic ?? "the first"} now …`);
    if (!now.is_ended) return;
    control.abort(); // the browser would open an ended stream again
    ended = now;
    draw();
  };
  const path = `/api/trail?${new URLSearchParams(clue)}`;
  events(path, { hop: onHop, batch: (one) => batches.push(one), progress: onProgress }, control.signal, (now) => {
    if (now !== "waiting") return;
    control.abort();
    replace(state, "The search has ended early: it was refused, or the connection is lost.");
  });
  return [state, problem, axis];
}

/**
 * What is to be said of a search that has ended.
 * @param {Progress | null} ended
 * @param {Hop[]} hops
 * @param {TrailSpans} spans
 */
function conclusion(ended, hops, spans) {
  if (ended === null) return null;
  if (hops.length === 0 && spans.items().length === 0) return emptyState("Nothing belongs to it.", "A key is compared whole, with upper and lower case.");
  if (ended.is_cut || spans.is_cut) return note("warn", "Older records, topics that you may not read, further groups, batches or spans were left out. Name topics to look deeper.");
  if (!spans.is_traced && !spans.has_others) return note("plain", "Calls and messages of the bus are not shown: this node traces nothing. Set console.tracing = true for later ones.");
  return null;
}

/**
 * What is to be said of the nodes that spans come from.
 * @param {TrailSpans} spans
 */
function aboutNodes(spans) {
  const missing = [...spans.missing].map(([node, why]) => `node ${node} ${why}`);
  const untraced = [...spans.untraced].sort((a, b) => a - b).join(", ");
  const moved = spans.items().filter((item) => item.is_moved).length;
  return [
    missing.length ? note("warn", `Some spans are missing: ${missing.join("; ")}.`) : null,
    untraced ? note("plain", `These nodes keep no spans: ${untraced}. Set console.tracing = true there for later ones.`) : null,
    moved ? note("plain", `Clocks differ: ${counted(moved, "span")} would begin before the parent, and ${moved === 1 ? "is" : "are"} shown after it.`) : null,
  ];
}

/**
 * Places in the log, batches and spans in one order, each with the time since the one before it.
 * @param {Hop[]} hops
 * @param {import("./trail_batches.js").Batch[]} batches
 * @param {TrailSpans} spans
 */
function onAxis(hops, batches, spans) {
  const items = [
    ...hops.map((hop) => ({ at_ms: hop.timestamp_ms, draw: (/** @type {string} */ later) => hopItem(hop, later) })),
    ...batches.map((batch) => ({ at_ms: batch.started_ms, draw: (/** @type {string} */ later) => batchItem(batch, later) })),
    ...spans.items().map((item) => ({ at_ms: item.at_ms, draw: (/** @type {string} */ later) => spanItem(item, later) })),
  ].sort((a, b) => a.at_ms - b.at_ms);
  return items.map((item, index) => {
    const before = items[index - 1];
    return item.draw(before ? `+ ${duration(item.at_ms - before.at_ms)}` : "first");
  });
}

/**
 * @param {Hop} hop
 * @param {string} later
 */
function hopItem(hop, later) {
  const place = h("a", { class: "mono", href: link`/topics/${hop.topic}/messages/${hop.partition}/${hop.offset}` }, ...text(hop.topic), ` · partition ${hop.partition} · offset ${number(hop.offset)}`);
  const tone = hop.letter ? "bad" : "accent";
  return h(
    "li",
    { class: hop.letter ? "hop hop-bad" : "hop" },
    h("p", { class: "hop-when" }, moment(hop.timestamp_ms), h("span", { class: "quiet" }, later)),
    h(
      "div",
      { class: "panel" },
      h("p", null, place, " ", badge(hop.letter ? "dead letter" : hop.reason, tone)),
      hop.letter ? h("p", null, ...text(`${hop.letter.reason}${hop.letter.error_text ? `: ${hop.letter.error_text}` : ""}`)) : null,
      h("p", { class: "mono quiet" }, hop.key === null ? "no key" : text(hop.key), " → ", hop.value === null ? "no value" : text(hop.value)),
      readersOf(hop.readers),
    ),
  );
}

/** @param {Reader[]} readers */
function readersOf(readers) {
  if (readers.length === 0) return h("p", { class: "quiet" }, "No group has committed an offset here.");
  const shown = readers.slice(0, READERS_SHOWN).map((one) => {
    const name = h("a", { class: "mono", href: link`/groups/${one.group}` }, ...text(one.group));
    const state = one.has_passed ? badge("passed", "good") : badge(`${number(one.records_before)} to go`, "warn");
    return h("span", { class: "reader" }, name, " ", state, " ");
  });
  const rest = readers.length > READERS_SHOWN ? `and ${number(readers.length - READERS_SHOWN)} more` : null;
  return h("p", null, "Groups: ", ...shown, rest);
}
