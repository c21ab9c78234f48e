/**
 * Paths of pages: patterns such as `/topics/:name/:tab`, and links with their names encoded.
 *
 * Knows no browser. A path that matches no pattern gives null.
 */

/**
 * The values of a pattern's `:names` in a path, decoded.
 * @param {string} pattern
 * @param {string} path
 * @returns {Record<string, string> | null}
 */
export function match(pattern, path) {
  const wanted = parts(pattern);
  const given = parts(path);
  if (wanted.length !== given.length) return null;
  /** @type {Record<string, string>} */
  const params = {};
  for (const [index, want] of wanted.entries()) {
    const text = decoded(/** @type {string} */ (given[index]));
    if (text === null) return null;
    if (want.startsWith(":")) params[want.slice(1)] = text;
    else if (want !== text) return null;
  }
  return params;
}

/**
 * A path with values in it: link`/topics/${name}`. Each value is encoded, a slash in it as well.
 * @param {TemplateStringsArray} texts
 * @param {...(string | number)} values
 */
export function link(texts, ...values) {
  return texts.map((text, index) => text + (index < values.length ? encoded(String(values[index])) : "")).join("");
}

/**
 * A path with a query; values that are null, undefined or empty are left out.
 * @param {string} path
 * @param {Record<string, string | number | boolean | null | undefined>} values
 */
export function withQuery(path, values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** @param {string} value */
function encoded(value) {
  // Half of a surrogate pair has no encoding; such a name is no name of the broker's either.
  return encodeURIComponent(value.replace(/[\ud800-\udfff]/gu, "\ufffd"));
}

/** @param {string} path */
function parts(path) {
  return path.split("/").filter((part) => part !== "");
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return null; // a percent sign without two digits, typed by hand
  }
}
