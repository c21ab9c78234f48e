/**
 * Values as people read them: numbers, sizes, times, and text whose hidden characters are shown.
 *
 * Knows no elements. A value that is not there is shown as a dash.
 */

export const NOTHING = "–";

const NUMBERS = new Intl.NumberFormat("en");
const TENTHS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const AGES = /** @type {const} */ ([[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1_000, "s"]]);

// C0 and C1 controls, zero-width and bidirectional characters, line separators, tags, and halves of surrogate pairs (with
// the flag u a whole pair is one character): a reader cannot see them, and some of them rearrange what is around.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\ud800-\udfff]/gu;

/** @typedef {number | null | undefined} Figure */

/** @param {Figure} value */
export function number(value) {
  return isFigure(value) ? NUMBERS.format(value) : NOTHING;
}

/** @param {Figure} value */
export function bytes(value) {
  if (!isFigure(value)) return NOTHING;
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${(unit === 0 ? NUMBERS : TENTHS).format(size)} ${UNITS[unit]}`;
}

/**
 * A number of things a second; small ones with a decimal.
 * @param {Figure} value
 */
export function rate(value) {
  if (!isFigure(value)) return NOTHING;
  if (value > 0 && value < 0.05) return "< 0.1/s";
  return `${(value < 10 ? TENTHS : NUMBERS).format(value < 10 ? value : Math.round(value))}/s`;
}

/**
 * A share of one as percent.
 * @param {Figure} value
 */
export function percent(value) {
  return isFigure(value) ? `${TENTHS.format(value * 100)} %` : NOTHING;
}

/**
 * A large number in few characters: 1.2 k, 3.4 M.
 * @param {Figure} value
 */
export function short(value) {
  if (!isFigure(value)) return NOTHING;
  const size = Math.abs(value);
  if (size >= 999_950_000) return `${TENTHS.format(value / 1e9)} G`;
  if (size >= 999_950) return `${TENTHS.format(value / 1e6)} M`;
  return size >= 10_000 ? `${TENTHS.format(value / 1e3)} k` : TENTHS.format(value);
}

/**
 * A moment in the reader's own time zone: 2026-11-28 06:22:21.123.
 * @param {Figure} time_ms since 1970
 */
export function time(time_ms) {
  const moment = date(time_ms);
  if (moment === null) return NOTHING;
  return `${day(moment)} ${clock(moment)}.${String(moment.getMilliseconds()).padStart(3, "0")}`;
}

/**
 * The time of day alone: 06:22:21.
 * @param {Figure} time_ms since 1970
 */
export function timeOfDay(time_ms) {
  const moment = date(time_ms);
  return moment === null ? NOTHING : clock(moment);
}

/**
 * A moment in UTC, for titles and copies.
 * @param {Figure} time_ms since 1970
 */
export function utc(time_ms) {
  const moment = date(time_ms);
  return moment === null ? NOTHING : moment.toISOString();
}

/**
 * A length of time by its two largest units: 2 h 5 min, 340 ms.
 * @param {Figure} length_ms
 */
export function duration(length_ms) {
  if (!isFigure(length_ms)) return NOTHING;
  const size = Math.abs(length_ms);
  if (size > 0 && size < 1) return `${TENTHS.format(length_ms * 1_000)} µs`;
  if (size < 1_000) return `${TENTHS.format(length_ms)} ms`;
  const at = AGES.findIndex(([unit]) => size >= unit);
  const [unit, name] = /** @type {readonly [number, string]} */ (AGES[at]);
  const next = AGES[at + 1];
  const whole = Math.floor(size / unit);
  const rest = next ? Math.floor((size % unit) / next[0]) : 0;
  return `${length_ms < 0 ? "-" : ""}${whole} ${name}${next && rest ? ` ${rest} ${next[1]}` : ""}`;
}

/**
 * A moment by its distance: 5 s ago.
 * @param {Figure} time_ms since 1970
 * @param {number} now_ms
 */
export function ago(time_ms, now_ms) {
  if (!isFigure(time_ms)) return NOTHING;
  const past_ms = now_ms - time_ms;
  if (Math.abs(past_ms) < 1_000) return "now";
  return past_ms > 0 ? `${duration(past_ms)} ago` : `in ${duration(-past_ms)}`;
}

/**
 * One of two words, after a number: 1 topic, 2 topics.
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export function counted(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/**
 * Text in which nothing is hidden: controls as their symbols (␀, ␛), other invisible characters as ⟨U+202E⟩. Line ends
 * and tabs stay where `lines` is true, as in a preformatted value.
 * @param {string} text
 * @param {{lines?: boolean}} [options]
 */
export function visible(text, options = {}) {
  return text.replace(HIDDEN, (found) => {
    if (options.lines && (found === "\n" || found === "\t")) return found;
    return symbol(found);
  });
}

/**
 * Parts of a text: what is shown as it is, and what stands for a hidden character.
 * @param {string} text
 * @param {{lines?: boolean}} [options]
 * @returns {{text: string, is_symbol: boolean}[]}
 */
export function visibleParts(text, options = {}) {
  const parts = [];
  let done = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (options.lines && (found[0] === "\n" || found[0] === "\t")) continue;
    if (found.index > done) parts.push({ text: text.slice(done, found.index), is_symbol: false });
    parts.push({ text: symbol(found[0]), is_symbol: true });
    done = found.index + found[0].length;
  }
  if (done < text.length) parts.push({ text: text.slice(done), is_symbol: false });
  return parts;
}

/**
 * The beginning of a text, visible, with an ellipsis where it was cut.
 * @param {string} text
 * @param {number} characters_max
 */
export function cut(text, characters_max) {
  if (text.length <= characters_max) return visible(text);
  return `${visible(text.slice(0, characters_max))}…`;
}

/** @param {string} character */
function symbol(character) {
  const code = /** @type {number} */ (character.codePointAt(0));
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/**
 * @param {Figure} value
 * @returns {value is number}
 */
function isFigure(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** @param {Figure} time_ms */
function date(time_ms) {
  if (!isFigure(time_ms) || time_ms < 0) return null;
  const moment = new Date(time_ms);
  return Number.isNaN(moment.getTime()) ? null : moment;
}

/** @param {Date} moment */
function day(moment) {
  return [moment.getFullYear(), moment.getMonth() + 1, moment.getDate()].map(two).join("-");
}

/** @param {Date} moment */
function clock(moment) {
  return [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(two).join(":");
}

/** @param {number} value */
function two(value) {
  return String(value).padStart(2, "0");
}
