/**
 * Elements from values: every value becomes text or an attribute, never markup.
 *
 * Strategy: `h` is the one way in which views make elements. It has no way to parse HTML, refuses handlers given as
 * text, and takes links to this site or by http(s) alone, so that a hostile record stays a string.
 */

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Child | Child[]} Children */
/**
 * `on`: event name to listener; `data`: data-* attributes; `style`: CSS properties, set by script as the policy wants.
 * @typedef {{on?: Record<string, (event: any) => void>, data?: Record<string, string>, style?: Record<string, string>,
 *   [attribute: string]: unknown}} Props
 */

const SVG = "http://www.w3.org/2000/svg";
const LINKS = new Set(["href", "src", "action", "formaction", "xlink:href"]);
const PROPERTIES = new Set(["value", "checked", "selected", "indeterminate"]);

/**
 * Make an HTML element: `h("a", {href: "/topics", class: "x", on: {click: f}}, "text", child)`.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Props | null} [props]
 * @param {...Children} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  append(element, children);
  apply(element, props ?? {});
  return element;
}

/**
 * Make an SVG element.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Props | null} [props]
 * @param {...Children} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function svg(tag, props, ...children) {
  const element = document.createElementNS(SVG, tag);
  append(element, children);
  apply(element, props ?? {});
  return element;
}

/**
 * Put children in place of all that an element holds.
 * @param {Element} element
 * @param {...Children} children
 */
export function replace(element, ...children) {
  element.replaceChildren(...nodes(children));
}

/**
 * @param {Element} element
 * @param {Children[]} children
 */
function append(element, children) {
  const made = nodes(children);
  if (made.length) element.append(...made);
}

/**
 * @param {Children[]} children
 * @returns {(Node | string)[]}
 */
function nodes(children) {
  /** @type {(Node | string)[]} */
  const made = [];
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    made.push(typeof child === "number" ? String(child) : child);
  }
  return made;
}

/**
 * @param {HTMLElement | SVGElement} element
 * @param {Props} props
 */
function apply(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") listen(element, /** @type {Record<string, (event: any) => void>} */ (value));
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") style(element, /** @type {Record<string, string>} */ (value));
    else if (PROPERTIES.has(name)) /** @type {any} */ (element)[name] = value;
    else element.setAttribute(name, checked(name, value === true ? "" : String(value)));
  }
}

/**
 * @param {HTMLElement | SVGElement} element
 * @param {Record<string, (event: any) => void>} listeners
 */
function listen(element, listeners) {
  for (const [name, listener] of Object.entries(listeners)) element.addEventListener(name, listener);
}

/**
 * @param {HTMLElement | SVGElement} element
 * @param {Record<string, string>} properties
 */
function style(element, properties) {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, value);
}

/**
 * @param {string} name
 * @param {string} value
 */
function checked(name, value) {
  const lower = name.toLowerCase();
  if (lower.startsWith("on") || lower === "srcdoc") throw new TypeError(`${name} is no attribute for h()`);
  // A browser drops spaces and control characters at the front before it reads the scheme.
  if (LINKS.has(lower) && !/^(?:\/(?![/\\])|[?#]|https?:\/\/)/i.test(value)) throw new TypeError(`${name} leads out`);
  return value;
}
