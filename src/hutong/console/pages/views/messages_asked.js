/**
 * What a messages page shows, as its address says it: where it begins, what is searched, how bytes are shown.
 *
 * Knows no elements.
 */

/**
 * @typedef {{from: string, offset: string, time: string, partitions: string, q: string, in: string, regex: string,
 *   path: string, key_form: string, value_form: string, before: string, after: string, live: string}} Asked
 */

const NAMES = /** @type {const} */ (["from", "offset", "time", "partitions", "q", "in", "regex", "path", "key_form", "value_form", "before", "after", "live"]);

/**
 * @param {URLSearchParams} query
 * @returns {Asked}
 */
export function askedOf(query) {
  return /** @type {Asked} */ (Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""])));
}

/** @param {Asked} asked */
export function isSearch(asked) {
  return asked.q !== "" || asked.path.trim() !== "";
}

/**
 * The query of a page.
 * @param {Asked} asked
 * @returns {Record<string, string>}
 */
export function pageQuery(asked) {
  const forms = formsOf(asked);
  if (asked.before) return { ...forms, before: asked.before };
  if (asked.after) return { ...forms, after: asked.after };
  const start = asked.from || "newest";
  /** @type {Record<string, string>} */
  const place = { from: start };
  if (start === "offset") place.offset = asked.offset;
  if (start === "time") place.time_ms = String(timeMs(asked.time));
  return { ...forms, ...place };
}

/**
 * The query of a search: from the newest on backwards, else from the place on forwards.
 * @param {Asked} asked
 * @returns {Record<string, string>}
 */
export function searchQuery(asked) {
  /** @type {Record<string, string>} */
  const query = { q: asked.q, in: asked.in || "anywhere", path: asked.path, partitions: asked.partitions };
  if (asked.regex) query.regex = "true";
  query.order = (asked.from || "newest") === "newest" ? "newest" : "oldest";
  if (asked.from === "offset") query.offset_begin = asked.offset;
  if (asked.from === "time") query.time_begin_ms = String(timeMs(asked.time));
  return query;
}

/**
 * @param {Asked} asked
 * @returns {{partitions: string, key_form: string, value_form: string}}
 */
export function formsOf(asked) {
  return { partitions: asked.partitions, key_form: asked.key_form, value_form: asked.value_form };
}

/**
 * The milliseconds of a local time such as 2026-11-28T06:22; NaN for what is none.
 * @param {string} local
 */
export function timeMs(local) {
  return new Date(local).getTime();
}

/**
 * A sentence on what is wrong, or null.
 * @param {Asked} asked
 */
export function faultOf(asked) {
  if (asked.from === "offset" && !/^\d{1,18}$/.test(asked.offset)) return "Give an offset: a number from 0.";
  if (asked.from === "time" && Number.isNaN(timeMs(asked.time))) return "Give a date and a time.";
  if (!/^\s*(\d+\s*(,\s*\d+\s*)*)?$/.test(asked.partitions)) return "Partitions are numbers with commas between them, such as 0,1.";
  return null;
}
