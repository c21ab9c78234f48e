/**
 * Tables that sort, filter, and take ten thousand rows.
 *
 * Strategy: rows are values until they are in sight. Up to ROWS_DRAWN_MAX all are drawn; beyond, the table scrolls inside
 * itself and only the rows in sight exist, with the widths of columns fixed so that nothing jumps. Keys: arrows go from
 * row to row, Home and End to the first and last, `/` to the filter. A click on a row follows its first link.
 */

import { h, replace } from "./dom.js";
import { counted, number } from "./format.js";
import { bind } from "./keys.js";
import { filtered, inSight, sorted } from "./rows.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {import("./rows.js").Sortable} Sortable */
/**
 * A column: `cell` draws, `sort` gives the value to sort by (without it the column does not sort).
 * @template T
 * @typedef {{title: string, cell: (row: T) => Child | Child[], sort?: (row: T) => Sortable, is_number?: boolean,
 *   is_mono?: boolean, is_action?: boolean, hint?: string}} Column
 */
/**
 * `search`: the text of a row that the filter looks into; without it there is no filter. `signal`: of the view.
 * @template T
 * @typedef {{caption: string, columns: Column<T>[], key: (row: T) => string, signal: AbortSignal, rows?: readonly T[],
 *   search?: (row: T) => string, filter_label?: string, noun?: string, nouns?: string, empty?: () => Child,
 *   sort_by?: number, is_descending?: boolean, actions?: Child[], filter?: string, onFilter?: (text: string) => void,
 *   row_class?: (row: T) => string | null}} TableOptions
 */
/**
 * @template T
 * @typedef {{element: HTMLElement, update: (rows: readonly T[]) => void, shown: () => readonly T[]}} Table
 */

const ROWS_DRAWN_MAX = 500;
const INTERACTIVE = "a, button, input, select, textarea, label, summary";

/**
 * @template T
 * @param {TableOptions<T>} options
 * @returns {Table<T>}
 */
export function table(options) {
  const drawn = new Drawn(options);
  drawn.update(options.rows ?? []);
  return { element: drawn.element, update: (rows) => drawn.update(rows), shown: () => drawn.shown };
}

/** @template T */
class Drawn {
  /** @param {TableOptions<T>} options */
  constructor(options) {
    this.options = options;
    /** @type {readonly T[]} */
    this.all = [];
    /** @type {readonly T[]} */
    this.shown = [];
    this.filter = options.filter ?? "";
    this.sort_by = options.sort_by ?? -1;
    this.is_descending = options.is_descending ?? false;
    this.row_px = 0;
    this.first = 0;
    this.last = 0;
    this.headers = options.columns.map((column, index) => this.header(column, index));
    this.columns = options.columns.map(() => h("col"));
    this.body = h("tbody", { on: { keydown: (event) => this.pressed(event), click: (event) => this.clicked(event) } });
    this.count = h("p", { class: "count", role: "status" });
    this.table = h(
      "table",
      null,
      h("caption", { class: "only-read" }, options.caption),
      h("colgroup", null, ...this.columns),
      h("thead", null, h("tr", null, ...this.headers)),
      this.body,
    );
    const scrolling = { class: "table-scroll", tabindex: "0", role: "region", "aria-label": options.caption };
    this.scroll = h("div", { ...scrolling, on: { scroll: () => this.draw() } }, this.table);
    this.rest = h("div");
    this.element = h("section", { class: "data" }, this.toolbar(), this.scroll, this.rest);
    const resized = new ResizeObserver(() => this.draw());
    resized.observe(this.scroll);
    options.signal.addEventListener("abort", () => resized.disconnect(), { once: true });
  }

  /** @returns {HTMLElement | null} */
  toolbar() {
    const { search, actions = [], signal, onFilter } = this.options;
    if (!search) return actions.length ? h("div", { class: "toolbar" }, this.count, ...actions) : null;
    const label = this.options.filter_label ?? "Filter";
    const input = h("input", { type: "search", class: "input", value: this.filter, placeholder: label, "aria-label": label, spellcheck: "false", "aria-keyshortcuts": "/" });
    input.addEventListener("input", () => {
      this.filter = input.value;
      onFilter?.(input.value);
      this.scroll.scrollTop = 0;
      this.arrange();
    });
    bind("/", label, () => input.select(), { signal });
    return h("div", { class: "toolbar" }, h("div", { class: "filter" }, input, h("kbd", { "aria-hidden": "true" }, "/")), this.count, ...actions);
  }

  /**
   * @param {Column<T>} column
   * @param {number} index
   */
  header(column, index) {
    const kind = column.is_number ? "number" : null;
    if (column.is_action) return h("th", { scope: "col" }, h("span", { class: "only-read" }, column.title));
    if (!column.sort) return h("th", { scope: "col", class: kind, title: column.hint ?? null }, column.title);
    const sort = h("button", { type: "button", class: "sort", title: column.hint ?? null, on: { click: () => this.sortBy(index) } }, column.title);
    return h("th", { scope: "col", class: kind }, sort);
  }

  /** @param {number} index */
  sortBy(index) {
    // Numbers are looked at from the largest down first.
    const first = this.options.columns[index]?.is_number ?? false;
    this.is_descending = this.sort_by === index ? !this.is_descending : first;
    this.sort_by = index;
    this.arrange();
  }

  /** @param {readonly T[]} rows */
  update(rows) {
    this.all = rows;
    this.arrange();
  }

  arrange() {
    const { search, columns } = this.options;
    const kept = search ? filtered(this.all, search, this.filter) : this.all;
    const value = columns[this.sort_by]?.sort;
    this.shown = value ? sorted(kept, value, this.is_descending) : kept;
    for (const [index, header] of this.headers.entries()) {
      if (!columns[index]?.sort) continue;
      const order = this.is_descending ? "descending" : "ascending";
      header.setAttribute("aria-sort", index === this.sort_by ? order : "none");
    }
    this.tellCount();
    this.draw(true);
  }

  tellCount() {
    const { noun = "row", nouns = `${noun}s`, empty } = this.options;
    const of = this.shown.length === this.all.length ? "" : `${number(this.shown.length)} of `;
    const told = this.all.length ? of + counted(this.all.length, noun, nouns) : "";
    if (this.count.textContent !== told) replace(this.count, told);
    const is_empty = this.all.length === 0;
    this.scroll.hidden = is_empty || this.shown.length === 0;
    if (is_empty) replace(this.rest, empty ? empty() : h("p", { class: "empty" }, `There are no ${nouns}.`));
    else replace(this.rest, this.shown.length ? null : h("p", { class: "empty" }, `No ${nouns} match the filter.`));
  }

  /** @param {boolean} [is_new] the rows have changed, not only what is in sight */
  draw(is_new = false) {
    const is_long = this.shown.length > ROWS_DRAWN_MAX;
    this.scroll.classList.toggle("table-long", is_long);
    if (is_long && this.row_px === 0) this.measure();
    const all = { first: 0, last: this.shown.length };
    const place = { scrolled_px: this.scroll.scrollTop, height_px: this.scroll.clientHeight, row_px: this.row_px };
    const { first, last } = is_long && this.row_px ? inSight({ ...place, count: this.shown.length }) : is_long ? { first: 0, last: 60 } : all;
    if (!is_new && first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    const focus = this.focused();
    const rows = this.shown.slice(first, last).map((row, index) => this.row(row, first + index, is_long));
    replace(this.body, this.space(first), ...rows, this.space(this.shown.length - last));
    if (is_long) this.table.setAttribute("aria-rowcount", String(this.shown.length + 1));
    else this.table.removeAttribute("aria-rowcount");
    if (focus) this.focusRow(focus.key, focus.at);
  }

  /** Learn the height of a row and fix the widths of columns, from the first rows drawn. */
  measure() {
    replace(this.body, ...this.shown.slice(0, 60).map((row, index) => this.row(row, index, true)));
    this.first = this.last = -1;
    const one = /** @type {HTMLElement | null} */ (this.body.firstElementChild);
    if (!one?.offsetHeight) return; // not in the page yet: the observer draws again
    this.row_px = one.getBoundingClientRect().height;
    const widths_px = this.headers.map((header) => header.getBoundingClientRect().width);
    for (const [index, column] of this.columns.entries()) column.style.width = `${widths_px[index]}px`;
    this.table.style.minWidth = `${widths_px.reduce((sum, width) => sum + width, 0)}px`;
    this.table.classList.add("table-fixed");
  }

  /**
   * @param {T} row
   * @param {number} index
   * @param {boolean} is_long
   */
  row(row, index, is_long) {
    const cells = this.options.columns.map((column) => {
      const kinds = [column.is_number && "number", column.is_mono && "mono", column.is_action && "row-actions"];
      return h("td", { class: kinds.filter(Boolean).join(" ") || null }, ...[column.cell(row)].flat());
    });
    const place = is_long ? { "aria-rowindex": index + 2 } : {};
    return h("tr", { ...place, class: this.options.row_class?.(row) ?? null, data: { key: this.options.key(row) } }, ...cells);
  }

  /** @param {number} count of rows that are not drawn */
  space(count) {
    if (count <= 0) return null;
    const cell = h("td", { colspan: this.columns.length, style: { height: `${count * this.row_px}px` } });
    return h("tr", { class: "space", "aria-hidden": "true" }, cell);
  }

  /** @returns {{key: string, at: number} | null} the row with the focus, and which of its controls has it */
  focused() {
    const row = document.activeElement?.closest("tr");
    if (!row || !this.body.contains(row)) return null;
    return { key: row.dataset.key ?? "", at: [...row.querySelectorAll(INTERACTIVE)].indexOf(/** @type {Element} */ (document.activeElement)) };
  }

  /**
   * @param {string} key
   * @param {number} at
   */
  focusRow(key, at) {
    const row = [...this.body.rows].find((one) => one.dataset.key === key);
    const control = row?.querySelectorAll(INTERACTIVE)[at];
    if (control instanceof HTMLElement) control.focus({ preventScroll: true });
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const focus = this.focused();
    const is_box = event.target instanceof HTMLInputElement && event.target.type === "checkbox";
    if (!focus || (event.target instanceof HTMLInputElement && !is_box) || event.target instanceof HTMLSelectElement) return;
    const at = this.shown.findIndex((row) => this.options.key(row) === focus.key);
    const page = Math.max(1, Math.floor(this.scroll.clientHeight / (this.row_px || 40)) - 1);
    const end = this.shown.length - 1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: end, PageDown: at + page, PageUp: at - page }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.goTo(Math.max(0, Math.min(end, to)), focus.at);
  }

  /**
   * @param {number} index
   * @param {number} at
   */
  goTo(index, at) {
    const row = /** @type {T} */ (this.shown[index]);
    if (this.row_px && this.shown.length > ROWS_DRAWN_MAX) {
      const top_px = index * this.row_px;
      const room_px = this.scroll.clientHeight - 2 * this.row_px;
      if (top_px < this.scroll.scrollTop) this.scroll.scrollTop = top_px;
      else if (top_px > this.scroll.scrollTop + room_px) this.scroll.scrollTop = top_px - room_px;
      this.draw();
    }
    this.focusRow(this.options.key(row), at);
    document.activeElement?.scrollIntoView({ block: "nearest" });
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    if (!(event.target instanceof Element) || event.target.closest(INTERACTIVE) || getSelection()?.toString()) return;
    const link = event.target.closest("tr")?.querySelector("a");
    // The link itself is followed, so that the router and the keys of a new tab work as for it.
    link?.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey: event.ctrlKey, metaKey: event.metaKey }));
  }
}
