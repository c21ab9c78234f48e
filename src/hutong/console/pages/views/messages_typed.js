/**
 * Bytes of a record as text that can be typed: UTF-8 as it is, other bytes as base64; headers as lines.
 *
 * Knows no elements.
 */

/** @typedef {{key: string | null, value: string | null, headers: [string, string | null][]}} Raw bytes as base64 */
/** @typedef {{name: string, value: {text: string, form: string} | null}} TypedHeader */

/**
 * @param {string | null} base64
 * @returns {{text: string, form: "text" | "base64"}}
 */
export function typedOf(base64) {
  if (base64 === null) return { text: "", form: "text" };
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    // A field of a form turns other line ends into its own: such a text would come back changed.
    return text.includes("\r") ? { text: base64, form: "base64" } : { text, form: "text" };
  } catch {
    return { text: base64, form: "base64" };
  }
}

/**
 * Headers as lines: `name: value`, `name:: base64` (as LDIF has it), or a name alone.
 * @param {readonly [string, string | null][]} headers
 */
export function headerLines(headers) {
  return headers.map(([name, value]) => headerLine(name, value)).join("\n");
}

/**
 * @param {string} name
 * @param {string | null} base64
 */
function headerLine(name, base64) {
  if (base64 === null) return name;
  const typed = typedOf(base64);
  const is_plain = typed.form === "text" && !/^[\s:]|[\n]|\s$/.test(typed.text);
  return is_plain ? `${name}: ${typed.text}` : `${name}:: ${base64}`;
}

/**
 * The headers of lines, and what is wrong with them.
 * @param {string} lines
 * @returns {{headers: TypedHeader[], fault: string | null}}
 */
export function headersOf(lines) {
  /** @type {TypedHeader[]} */
  const headers = [];
  for (const line of lines.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf(":");
    const name = at < 0 ? line : line.slice(0, at);
    if (name.trim() === "") return { headers: [], fault: `A header has a name before its colon: ${line.slice(0, 50)}` };
    const rest = line.slice(at + 1);
    if (at < 0) headers.push({ name, value: null });
    else if (rest.startsWith(":")) headers.push({ name, value: { text: rest.slice(1).trim(), form: "base64" } });
    else headers.push({ name, value: { text: rest.replace(/^ /, ""), form: "text" } });
  }
  return { headers, fault: null };
}
